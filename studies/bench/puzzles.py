"""How fast puzzles are drawn, and what it costs to show a batch of them under symmetries.

Puzzles a second are by processor time of one core, which other work on the machine hardly touches, with everything that a set
takes: its classes and grids, which cells are given, and that the splits share nothing. Symmetries are each row's own.
"""

import time
from collections.abc import Callable

import torch
from figure import Figure

from recstudy.data import Decoded, Maze, Sudoku, maze_making, sudoku_making
from recstudy.data.puzzles import Puzzles

ROUNDS, BATCH = 5, 768


def measure(options: object) -> list[Figure]:
    """Drawing puzzles of each kind, then symmetries, on one core."""
    torch.set_num_threads(1)
    sudokus, mazes = sudoku_making.make_set, maze_making.make_set
    many = {"puzzles": 500, "test_puzzles": 300}
    few = {"puzzles": 50, "test_puzzles": 30}
    return [
        drawing([Sudoku(side=4, **many, drawing_seed=seed) for seed in range(ROUNDS)], sudokus),
        drawing([Sudoku(side=6, **many, drawing_seed=seed) for seed in range(ROUNDS)], sudokus, least=400),
        drawing([Sudoku(side=9, **few, drawing_seed=seed) for seed in range(ROUNDS)], sudokus, least=25),
        drawing([Maze(**many, drawing_seed=seed) for seed in range(ROUNDS)], mazes),
        drawing([Maze(side=29, least_steps=40, **few, drawing_seed=seed) for seed in range(ROUNDS)], mazes),
        turning(Sudoku(side=9), most=10),
        turning(Maze(side=29)),
    ]


def drawing(configs: list[Puzzles], make: Callable[..., Decoded], least: float | None = None) -> Figure:
    """Puzzles a second, a set a sample."""
    rates = []
    for config in configs:
        sudoku_making.in_classes.cache_clear()
        began = time.process_time()
        made = make(config)
        rates.append((len(made.train_images) + len(made.test_images)) / (time.process_time() - began))
    return Figure(f"drawing {configs[0].title}", "/s", rates, least=least)


def turning(config: Puzzles, most: float | None = None) -> Figure:
    """Milliseconds for a batch of puzzles and their answers."""
    given = torch.randint(1, config.classes, (BATCH, config.cells))
    answers = given.byte()
    times = []
    for _ in range(10 * ROUNDS):
        draws = torch.rand(BATCH, config.draws, dtype=torch.float64)
        began = time.process_time()
        config.turned(given, answers, draws)
        times.append(1e3 * (time.process_time() - began))
    return Figure(f"symmetries of {BATCH} of {config.title}", "ms", times, most=most)
