"""Three of the settings that `tiny_search` may try, as a study."""

from tiny_search import BASE

from recstudy import Study, grid, main

study = Study(name="tiny_sweep", presets={"quick": BASE}, variants=grid({"model.latent_steps": [1, 2, 3]}), seeds=1)

if __name__ == "__main__":
    main(study)
