"""How an author's process on a CPU is watched, in which its code is checked and timed.

names       in the process: functions that the harness uses are still those of before the import
modes       in the process: no mode of torch is left on that would see the harness's own calls
calls       in the process: what timed calls wrote, copied as they return, so that nothing can write it later
two_clocks  in the process: two clocks of the host agree on every turn
audit       in the parent: processor time outside of turns, and how long turns took

Work that a launch leaves unfinished is seen by `softbench.measure.check.watching`.

On a GPU a referee, which runs no author's code, uses none of this. Where it cannot check and time a kernel, the cell is open:
its process is asked the same questions.
"""
