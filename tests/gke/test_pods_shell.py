"""The shell of simulated containers, held against a real bash where there is one."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.gke.pods.clock import Clock, Signal
from sandbox.gke.pods.files import FileTree, FileView
from sandbox.gke.pods.programs.filesystem import FILE_COMMANDS
from sandbox.gke.pods.programs.stream_editor import sed
from sandbox.gke.pods.programs.system import SYSTEM_COMMANDS
from sandbox.gke.pods.programs.text import TEXT_COMMANDS
from sandbox.gke.pods.shell.interpreter import run_script
from sandbox.gke.pods.shell.process import Process, Program
from sandbox.gke.pods.shell.streams import Capture

BASH = shutil.which("bash")


class Box:
    """A machine with the common commands and an empty file system."""

    def __init__(self) -> None:
        self.files = FileView(FileTree())
        self.files.make_folder("/tmp")
        self.clock = Clock(0.0, Signal())

    def program(self, name: str, process: Process) -> Program | None:
        return (TEXT_COMMANDS | FILE_COMMANDS | SYSTEM_COMMANDS | {"sed": sed}).get(name)

    async def sleep(self, seconds: float, *, in_loop: bool) -> None:
        await self.clock.sleep(seconds, in_loop=in_loop)

    async def sleep_for_ever(self) -> None:
        await self.clock.sleep_for_ever()


def shell(
    script: str, environment: dict[str, str] | None = None, arguments: Sequence[str] = ("bash",)
) -> tuple[str, int, str]:
    """Run a script; return standard output, exit code, standard error."""
    output, errors = Capture(), Capture()
    process = Process(
        machine=Box(),
        environment=dict(environment or {}),
        directory="/tmp",
        stdout=output,
        stderr=errors,
    )
    code = asyncio.run(asyncio.wait_for(run_script(process, script, arguments), 10))
    return output.text, code, errors.text


SCRIPTS = [
    'echo "a  b" c; x="1 2"; echo $x "$x"; echo ${x:-y} ${z:-y} "${z:-a b}"',
    'set -- a "b c" d; for i in "$@"; do echo "[$i]"; done; echo $# "${@:2}" $*',
    'f() { local a=$1; echo "$a-${2:-none}"; return 3; }; f 1; echo $?; f 1 2 || echo fail',
    'h=""; for i in $(seq 0 $((3 - 1))); do h="$h j-$i.s"; done; echo "$h"',
    'h=" j-0.s j-1.s"; j=j; for x in ${h#* $j-0.s}; do echo "<$x> $j"; done',
    'if [[ -z "$q" && a == a* ]]; then echo yes; elif false; then echo no; else echo other; fi',
    "n=0; while [ $n -lt 3 ]; do n=$((n+1)); [ $n -eq 2 ] && continue; echo $n; done",
    'until [ "$n" = 0 ]; do n=$((${n:-3}-1)); done; echo end $n',
    "printf '%s\\n' a b c | while read -r l; do echo \"got $l\"; done",
    "while IFS= read -r l; do echo \"x$l\"; done < <(printf 'a\\nb\\n')",
    "cat <<EOF\nv=${x:-d} \\$y $(echo sub)\nEOF\ncat <<'EOF'\nv=$x\nEOF",
    "case abc in a*) echo A;; *) echo B;; esac; case x in a|x) echo AX;; esac",
    "set -e; (exit 3) || echo caught; false; echo never",
    'set -u; echo "$undefined"; echo never',
    ': "${FOO:?Must set}"; echo never',
    "echo $(( 2*3+1 )) $((7/2)) $((7%3)) $((1<2 && 3>2)) $((-7/2))",
    'arr=(a b "c d"); echo ${#arr[@]} ${arr[1]} "${arr[@]}"; arr+=(e); echo "${arr[3]}"',
    "x=/a/b/c.txt; echo ${x##*/} ${x%/*} ${x%.txt} ${x/b/Z} ${#x} ${x:1:3}",
    "! true; echo $?; ! false; echo $?; true && false || echo or",
    'export A=1 B="x y"; echo $A $B; unset A; echo "[$A]"',
    "echo a | cat | cat; (echo sub; exit 4); echo $?",
    "x=$(false); echo $?; y=$(echo hi); echo $? $y",
    "for ((i=0;i<3;i++)); do echo $i; done; echo {1..3}",
    "echo \"a\\\"b\" 'c\"d' \\$HOME \"\\$x\" $'t\\tab'",
    "sleep_() { :; }; sleep_ & wait $!; echo done $?",
    "set -- x y; shift; echo $1; [ $# -eq 1 ] && echo one",
    'v="a b"; [ -n "$v" ] && [ "$v" = "a b" ] && echo eq; [[ $v =~ ^a ]] && echo re',
    "[ 1 -lt 2 -a 2 -lt 3 ] && echo and; [ ! -e /nowhere ] && echo not",
    "r() { for i in 1 2 3; do if [ $i = 2 ]; then return 7; fi; echo $i; done; }; r; echo $?",
    "cat <<EOF | cat\nhello\nEOF\necho after",
    "x=5; ((x+=2)); echo $x; ((x==7)) && echo seven; let y=x*2; echo $y",
    'a="x"; a+="y"; echo $a "${a^^}"; b=a; echo ${!b}',
    "for i in 1 2; do for j in a b; do [ $j = b ] && continue 2; echo $i$j; done; done",
    'exit "$(echo 5)"',
    'f() { g="$3" n="$2"\necho "$g-$n"; }; f a b c; set -- 1 2 3\ng="$3" n="$2"\necho "x$n/y$g"',
    "printf '%s-%03d\\n' a 7 b 8; printf '%5.2f|%-4s|\\n' 3.14159 x",
    "echo 'one two three' | awk '{print $2, $NF}'; echo a:b | cut -d: -f2; echo abc | tr a-c A-C",
    "printf 'b\\na\\nb\\n' | sort -u | head -1; printf 'x=1\\n' | sed 's/x=//'",
    "echo abab | grep -o b | wc -l; echo x | grep -q y; echo $?; echo ab | grep -c a",
    "set -o pipefail; false | true; echo $?; true | false; echo $?",
    "bash -o pipefail -c 'false | true'; echo $?; bash -euo pipefail -c 'false; echo no'; echo $?",
    "bash -x -c 'echo hi' 2>/dev/null; echo 'exit 4' | bash; echo $?",
    "x=1; (x=2; echo $x); echo $x; { x=3; }; echo $x",
    "seq 3 | xargs echo n; seq 2 | xargs -n 1 echo k; basename /a/b.txt .txt; dirname /a/b",
]  # fmt: skip


@pytest.mark.skipif(BASH is None, reason="no bash on this machine to compare with")
@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_do_what_bash_does(script: str) -> None:
    assert BASH is not None
    real = subprocess.run(
        [BASH, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    output, code, errors = shell(script)
    assert (output, code) == (real.stdout, real.returncode), errors + real.stderr
    assert bool(errors) == bool(real.stderr)


words = st.text(alphabet=[chr(code) for code in range(32, 127)], max_size=12)


@given(word=words)
@settings(max_examples=60)
def test_a_quoted_text_survives_whole(word: str) -> None:
    quoted = "'" + word.replace("'", "'\\''") + "'"
    assert shell(f"x={quoted}; printf '%s' \"$x\"")[0] == word


def test_files_are_written_read_copied_and_matched() -> None:
    output, code, _ = shell(
        "mkdir -p /a/b; echo one >/a/b/1.sh; echo two >>/a/b/1.sh; cp /a/b/* /tmp/; "
        "for f in /tmp/*.sh; do echo \"$f: $(cat $f | tr '\\n' ,)\"; done; ls /none || echo gone"
    )
    assert output == "/tmp/1.sh: one,two,\ngone\n"
    assert code == 0


def test_a_trace_shows_commands_before_they_run() -> None:
    assert shell("set -x; echo hi 'a b'")[2] == "+ echo hi 'a b'\n"


def test_a_missing_command_is_127_and_a_folder_126() -> None:
    assert shell("no-such-command")[1:] == (127, "bash: no-such-command: command not found\n")
    assert shell("/tmp")[1] == 126


def test_a_syntax_error_ends_the_script() -> None:
    _, code, errors = shell("if then fi fi")
    assert code == 2
    assert "syntax error" in errors


def test_a_pipe_whose_reader_ended_stops_its_writer() -> None:
    assert shell("while true; do echo y; done | head -2")[0] == "y\ny\n"


def test_an_endless_loop_lets_others_work_and_can_be_ended() -> None:
    async def story() -> None:
        process = Process(machine=Box(), environment={})
        task = asyncio.create_task(run_script(process, "while true; do :; done", ["bash"]))
        await asyncio.sleep(0.05)
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(story())


def test_a_lone_sleep_takes_no_time_and_a_long_one_never_ends() -> None:
    started = time.monotonic()
    assert shell("sleep 30; echo done")[0] == "done\n"
    assert time.monotonic() - started < 10
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(Clock(0.0, Signal()).sleep(3600, in_loop=False), 0.05))


def test_a_sleep_in_a_loop_ends_with_the_next_change_but_not_at_once() -> None:
    async def story() -> float:
        news = Signal()
        clock = Clock(0.0, news)
        started = time.monotonic()
        asyncio.get_running_loop().call_later(0.01, news.changed)
        await clock.sleep(10, in_loop=True)
        return time.monotonic() - started

    assert 0.5 < asyncio.run(story()) < 8


def test_bind_mounts_are_hidden_from_mounts_that_were_made_before() -> None:
    # [facts gpudirect.md §11.2]
    tree = FileTree()
    tree.make_folder("/dev/aperture_devices/0000:06:00.1")
    before = tree.bind_count
    tree.write("/dev/aperture_devices/0000:06:00.1/resource4", "x")
    tree.bind("/dev/aperture_devices/0000:06:00.1")
    path = "/dev/aperture_devices/0000:06:00.1/resource4"
    assert tree.read(path, newest_bind=before) is None
    assert tree.read(path, newest_bind=tree.bind_count) == "x"
    assert tree.unbind("/dev/aperture_devices")
    assert tree.read(path) is None
