"""Text workflows with their executors: run one of them, or all tests.

The texts are in ``flows``. ``holdfast.toml`` declares the provider ``tickets`` and the resolver
``pr_checks`` as programs. From this folder, ``holdfast run flows/nightly-audit.wf --using
workflow.py`` does the same as this module.
"""

from __future__ import annotations

from pathlib import Path

from holdfast import Engine, wf

HERE = Path(__file__).parent


def make_library(root: Path = HERE) -> wf.Library:
    """Return the library of the texts; *root* is the folder of scripts and programs."""
    library = wf.Library(root / "flows", root=root)

    @library.executor("fixer")
    def fix(call: wf.Call) -> None:
        """Fix one finding: the script counts the fixes in a file."""
        path = Path(call.cwd, "fixes")
        fixes = int(path.read_text()) if path.exists() else 0
        path.write_text(str(fixes + 1))

    @library.executor("judge")
    def judge(call: wf.Call) -> wf.Output:
        return wf.Output(
            output={"confidence": 90, "summary": "looks good", "channels": ["beta", "stable"]}
        )

    @library.executor("triage")
    async def triage(call: wf.Call) -> dict:
        title = call.inputs["item.title"]
        return {"context": f"triaged {title}", "markers": ["spam"] if title == "door" else []}

    @library.executor()
    def anything_else(call: wf.Call) -> wf.Output:
        return wf.Output(context=f"{call.step} done")

    return library


def main() -> None:
    library = make_library()
    (HERE / "fixes").unlink(missing_ok=True)
    with Engine(HERE / "text_flows.db", workflows=[library]) as engine:
        run = engine.start(library["nightly-audit"], {"branch": "main"}, cwd=str(HERE))
        run.result(timeout="30s")
        for step in run.steps():
            print(step.id, step.status, step.context)


if __name__ == "__main__":
    main()
