"""The live board: pages over a results folder that follow it while studies run. Reads records only, writes nothing.

poller     the folder: what changed since the last poll, nothing outside it
progress   what runs, what was paid, what is left
markup     addresses, the parts of a page, links
sources    a study's records as the report has them, and the metric by which it is judged
overview   `/`: the studies, what runs now
runlist    `/runs/NAME/PRESET`: a table of the runs of a study
study      `/study/NAME/PRESET`: the report's own tables and figures, filling up
run        `/run/ID`
pages      which page an address asks for
guard      who may read: tokens, host names, headers
server     the Flask application and its server; web/ is what runs in the browser
"""
