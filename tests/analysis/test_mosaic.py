import base64
import io

import numpy as np
import pytest
from PIL import Image

from recstudy.analysis.figures.mosaic import data_uri, mosaic, side_of, tile


def test_the_mosaic_pixel_by_pixel():
    """Three 1 x 1 images, each enlarged to 2 x 2; two a row, with 1 pixel beside and 1 under each. Opacity is the last number."""
    red, grey, black = np.array([[[9, 1, 2]]]), np.array([[[5]]]), np.array([[[0]]])

    picture = mosaic([image.astype(np.uint8) for image in (red, grey, black)], columns=2, side=2, gap=1, words=1)

    r, g, b, _ = [9, 1, 2, 255], [5, 5, 5, 255], [0, 0, 0, 255], [0, 0, 0, 0]
    assert picture.tolist() == [
        [r, r, _, g, g, _],
        [r, r, _, g, g, _],
        [_, _, _, _, _, _],
        [b, b, _, _, _, _],
        [b, b, _, _, _, _],
        [_, _, _, _, _, _],
    ]


def test_an_image_that_is_not_square_stands_in_the_middle():
    square = tile(np.full((1, 2, 1), 7, np.uint8), side=4)

    assert square[..., 0].tolist() == [[0] * 4, [7] * 4, [7] * 4, [0] * 4]
    assert square[..., 3].tolist() == [[0] * 4, [255] * 4, [255] * 4, [0] * 4]


@pytest.mark.parametrize(("size", "side"), [(8, 128), (28, 140), (32, 128), (64, 128), (100, 100), (224, 128)])
def test_small_images_are_enlarged_by_a_whole_number_and_large_ones_shrunk(size, side):
    image = np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)

    assert side_of(image) == side
    square = tile(image, side)
    assert square.shape == (side, side, 4)
    if side % size == 0:
        step = side // size
        assert (square[::step, ::step, :3] == image).all()
        assert (square[step - 1 :: step, step - 1 :: step, :3] == image).all()


def test_the_picture_in_the_page_is_the_mosaic():
    picture = mosaic([np.arange(64, dtype=np.uint8).reshape(8, 8, 1)], columns=1, side=8, gap=0, words=0)

    uri = data_uri(picture)

    assert (np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))) == picture).all()
