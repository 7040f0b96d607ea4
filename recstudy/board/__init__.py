"""The live board (`recstudy board`): web pages of a results folder while studies run.

It only reads records, except for the log of looks, which it writes.

folder     the state of a results folder at the last poll: studies and runs in progress
progress   the progress of runs and studies, and the remaining time
pages      the index, and the page of a study: its report with the runs in progress
runs       the table of a study's runs, and the comparison of several runs
run        the page of one run
frame      the templates of all pages
guard      access control: tokens, host names, headers
server     the Flask application and its server

templates/ extends the templates of recstudy.report; web/ has scripts for the browser.
"""
