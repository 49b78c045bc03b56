"""How much a session of eight reads writes: one event for each fact, and few commits."""

from tests.harness.runtime import call, open_runtime_harness, script

READS = 8
READ = ("turn.completed", "tool_call.started", "tool_call.completed")


async def test_eight_reads_are_32_events_and_at_most_two_commits_each_and_three(tmp_path, monkeypatch):
    """Without reads at once, whose intent and outcome share a commit, it would be 24 commits."""
    reads = [{"tool_calls": [call("read_file", path=f"{number}.txt")]} for number in range(READS)]
    environment, commits = {"MODEL": script(tmp_path, *reads, "msg:done")}, []
    async with open_runtime_harness(tmp_path, monkeypatch, environment) as harness:
        for number in range(READS):
            (harness.root / f"{number}.txt").write_text("words\n")
        session, writer = await harness.session(), harness.runtime.log._writer
        commit = writer._commit_once
        monkeypatch.setattr(writer, "_commit_once", lambda units: (commits.append(units), commit(units)))
        assert (await harness.say(session)).status == "done"
        kinds = [kind for kind, _ in harness.events(session)]
    assert kinds == [
        *("session.created", "message.appended", "task.queued", "task.started", "agent.started"),
        *(READ * READS),
        *("turn.completed", "agent.completed", "task.finished"),
    ]
    assert len(kinds) == 32
    assert len(commits) <= 2 * READS + 3
