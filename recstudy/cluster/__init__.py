"""Where a study meets Ray: the cluster, the driver and its runs, the workers. Nothing else imports Ray."""
