"""Files in the format of CLIP's tokenizer, with three merges."""

import json

from tokenizers import pre_tokenizers


def clip_files(folder):
    """FOLDER/clip/{vocab.json,merges.txt} in CLIP's order: 256 bytes, the same at a word's end, merges,
    special ones.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    alphabet.insert(0, alphabet.pop(alphabet.index("!")))  # CLIP's first id, which is also its padding
    merges = [("l", "e"), ("f", "t</w>"), ("le", "ft</w>")]
    pieces = [
        *alphabet,
        *(f"{sign}</w>" for sign in alphabet),
        *map("".join, merges),
        "<|startoftext|>",
        "<|endoftext|>",
    ]
    (folder / "clip").mkdir(parents=True, exist_ok=True)
    (folder / "clip/vocab.json").write_text(
        json.dumps({piece: number for number, piece in enumerate(pieces)})
    )
    lines = ["#version: 0.2", *map(" ".join, merges)]
    (folder / "clip/merges.txt").write_text("\n".join(lines) + "\n")
    return folder
