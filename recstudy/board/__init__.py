"""The live board: pages over a results folder while studies run. It reads records and writes the log of looks
alone.

folder     a results folder as of the last poll: its studies, and the runs in progress
progress   how far a run and a study are, and the time that is left
pages      the index, and the page of a study: the report's page with the runs in progress
runs       the table of a study's runs, and an overlay of several runs
run        the page of one run
guard      who may read: tokens, host names, headers
server     the Flask application and its server

templates/ extend those of recstudy.report; web/ runs in the browser.
"""
