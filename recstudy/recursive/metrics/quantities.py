"""Metrics that are not computed from answers: losses, and quantities measured during training.

Importing this module registers them. The training loop and the tasks measure their values.
"""

from functools import partial

from recstudy.programs.metric import METRICS
from recstudy.recursive.metrics.registry import percent_quantity, quantity

share = partial(percent_quantity, of_text=True, share=True)
text_quantity = partial(quantity, form=".3f", of_text=True)
WHEN = ("before", "after")  # the alignment of image and text

METRICS.add_all(
    {
        "token_accuracy": share("Token accuracy", short="tokens", tasks=("caption",)),
        **{
            f"recall_{k}": share(f"Recall@{k}", short=f"recall@{k}", ranks=k == 1, tasks=("alignment",))
            for k in (1, 5, 10)
        },
        **{f"cosine_{when}": text_quantity(f"Cosine, {when}") for when in WHEN},
        **{f"contrast_{when}": text_quantity(f"Matched minus mismatched cosine, {when}") for when in WHEN},
        "caption_loss": text_quantity("Caption loss", "nats/token", "lower"),
        "extra_loss": quantity("Loss beside the task's", "", "lower", ".3f"),
        "router_entropy": text_quantity("Router entropy", "nats"),
        "attention_entropy": text_quantity("Attention entropy", "nats"),
        "expert_load_peak": quantity("Largest expert share", "%", "lower", ".1f", of_text=True),
        "dropped_tokens": quantity("Dropped tokens", "%", "lower", ".1f", of_text=True),
        # reported by paper 000, which does not define it
        "act_loss": quantity("ACT loss", "nats", "lower", ".2f"),
        "supervision_steps_used": quantity("Supervision steps used"),
        "numerical_floor": percent_quantity("Items that rounding flips", better="lower", form=".2f"),
        "train_loss": quantity("Training loss", "nats", "lower", ".3f"),
        "selection_loss": quantity("Loss, selection", "nats", "lower", ".3f"),
        "learning_rate": quantity("Learning rate"),
    }
)
