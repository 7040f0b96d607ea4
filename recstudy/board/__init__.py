"""The live board: pages over a results folder that follow it while studies run. Reads records only, writes nothing.

poller     the folder: what changed since the last poll, nothing parsed twice, nothing outside it; a store's copy of it
progress   what runs, what was paid, what is left
markup     addresses, and a page as parts, each made again only when what it shows has changed
sources    a study's records as the report has them, its own modules, the metric by which it is judged
overview   `/`: the studies, what runs now
runlist    `/runs/NAME/PRESET`: a table of the runs of a study
study      `/study/NAME/PRESET`: the report's own tables and figures, filling up
run        `/run/ID`
renderer   makes the parts of the pages that somebody looks at, behind their back
guard      who may read: tokens, host names, headers, and what may be asked
server     the Dash application and its server; web/ is what runs in the browser

All before `guard` need no Dash: they are functions from records to text.
"""
