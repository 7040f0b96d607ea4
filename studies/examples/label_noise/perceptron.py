"""Train a perceptron on generated points. This script does not use recstudy."""

import argparse
import json
import random

parser = argparse.ArgumentParser()
parser.add_argument("--noise", type=float, default=0.0, help="share of training labels that are wrong")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--out", default=".")
arguments = parser.parse_args()


def draw(generator, noise):
    points = [[1, generator.gauss(0, 1), generator.gauss(0, 1)] for _ in range(1000)]
    return [(point, (point[1] + point[2] > 0.5) != (generator.random() < noise)) for point in points]


def answer(weights, point):
    return sum(weight * value for weight, value in zip(weights, point, strict=True)) > 0


test, train = draw(random.Random(0), 0), draw(random.Random(1 + arguments.seed), arguments.noise)
weights = [0.0, 0.0, 0.0]
for epoch in range(5):
    for point, label in train:
        weights = [
            weight + (label - answer(weights, point)) * value
            for weight, value in zip(weights, point, strict=True)
        ]
    accuracy = sum(answer(weights, point) == label for point, label in test) / 10
    print(f"epoch {epoch} accuracy {accuracy:.1f}")

with open(f"{arguments.out}/metrics.json", "w") as file:
    json.dump({"accuracy": accuracy}, file)
