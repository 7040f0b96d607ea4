"""The live board: pages over a results folder that follow it while studies run. Reads records only, writes nothing.

logs       a growing log, read from where the last look ended
plans      the studies, and what they are made of
watch      the folder: what changed since the last look, nothing parsed twice, nothing outside it
rows       a study's records as the report has them
news       what a reader is notified of
progress   what runs, what was paid, what is left
markup     a page as parts, each made again only when what it shows has changed; links, tables and forms as HTML
overview   `/`: the studies, what runs now
columns    what a list of runs shows, sorts by and filters by
runlist    `/runs/NAME/PRESET`: every run of a study
brush      parallel coordinates that filter it
curves     curves, drawn as the address says
story      a run's log
study      `/study/NAME/PRESET`: the report's own tables and figures, filling up
run        `/run/ID`
compare    `/compare?runs=ID,ID,...`, or two studies
pages      which page an address asks for
renderer   makes the parts of the pages that somebody looks at, behind their back
store      results on an object store, fetched again while somebody looks
elements   HTML as nodes that the script builds
stylesheet what it looks like
brush_script  what draws parallel coordinates there
script     what runs in the browser
guard      who may read: tokens, host names, headers
app        the Dash application
serve      its address and its server

All before `guard` need no Dash: those before `store` are functions from records to text.
"""
