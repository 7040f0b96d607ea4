"""The command `recstudy verify`."""

from dataclasses import dataclass

from recstudy.cli.options import BundleArgument, JsonFlag


@dataclass(frozen=True)
class VerifyCommand:
    """Check a published study against its records.

    No network is needed, nothing is trained, and no code of the bundle is run. The last line is the SHA-256
    of the records, which a paper may print. If something differs, the exit code is 1.
    """

    bundle: BundleArgument
    """A bundle of `recstudy publish`."""
    json: JsonFlag = False

    def run(self) -> int:
        from recstudy.publishing.bundle import open_bundle
        from recstudy.publishing.verify import show_verified, verify

        with open_bundle(self.bundle) as bundle:
            verified = verify(bundle)
        if self.json:
            verified.show()
        else:
            show_verified(verified)
        return 0 if verified.matches else 1
