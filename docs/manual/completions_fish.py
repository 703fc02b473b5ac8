"""Completions for fish, 3.0 or newer.

No state: safe from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from manual.arguments import Argument, Command
from manual.candidates import (
    Candidates,
    Kind,
    MountOption,
    brief,
    mount_options,
    places_of,
    value_of,
)

_FRAME = r"""# Made out of the argument parser: change that, not this.

function __ffrfs_without_command
    test (count (commandline -opc)) -eq 1
end

# COMMAND is one word, or two with a slash between them.
function __ffrfs_in -a command
    set -l words (commandline -opc)
    test (count $words) -gt 1; or return
    test "$words[2]" = $command -o "$words[2]/$words[3]" = $command
end

# Whether the cursor is at one of the positional arguments FIRST to LAST of COMMAND, counted from 0.
# The flags that follow take a value, which is no positional argument.
function __ffrfs_at -a command first last
    __ffrfs_in $command; or return
    set -l place 0
    string match -q -- '*/*' $command; and set place -1
    set -l words (commandline -opc)
    set -l is_value 0
    set -l is_ended 0
    for word in $words[3..-1]
        if test $is_value -eq 1
            set is_value 0
        else if test $is_ended -eq 0; and test "x$word" = x--
            set is_ended 1
        else if test $is_ended -eq 1; or not string match -q -- '-*' $word
            set place (math 1 + $place)
        else if contains -- $word $argv[4..-1]
            set is_value 1
        end
    end
    test $is_value -eq 0 -a $place -ge $first -a $place -le $last
end

# Directories, too; any file if there is no pack.
function __ffrfs_packs
    set -l files (complete -C "__fish_command_without_completions "(commandline -ct))
    set -l packs (string match -r -- '.*(?:/|\.ffr|\.tfrecord.*(?<!\.idx))$' $files)
    if test (count $packs) -gt 0
        printf '%s\n' $packs
    else
        printf '%s\n' $files
    end
end

# By the kernel's list, which can be read whatever has become of the mounts.
function __ffrfs_mounts
    string match -r '.* - fuse\.ffrfs .*' </proc/self/mountinfo | while read -l -a fields
        printf '%b\tffrfs\n' (string replace -a '\\' '\\0' -- $fields[5])
    end
end

# Words with commas between them.
function __ffrfs_mount_options
    set -l before (commandline -ct | string match -r '.*,')
    for line in (printf '%s\t%s\n' \
@MOUNT_OPTIONS@)
        printf '%s\n' "$before$line"
    end
end

complete -c ffrfs -f
"""
_LAST = 999  # the most words of a repeatable place
_ANSWERS = {
    Kind.PACK: "(__ffrfs_packs)",
    Kind.MOUNT: "(__ffrfs_mounts)",
    Kind.MOUNT_OPTIONS: "(__ffrfs_mount_options)",
    Kind.FOLDER: "(__fish_complete_directories)",
}


def fish_script(program: Command) -> str:
    options = map(_mount_option, mount_options(program.command("mount")))
    lines = [_FRAME.replace("@MOUNT_OPTIONS@", " \\\n".join(options))]
    for option in program.options:
        lines.append(_line("__ffrfs_without_command", *_option(program, option)))
    for command in program.commands:
        lines.append("")
        lines += _lines(command)
    return "\n".join(lines) + "\n"


def _lines(command: Command) -> Iterator[str]:
    if " " not in command.word:
        told = ["-a", command.word, "-d", _quoted(command.summary)]
        yield _line("__ffrfs_without_command", *told)
    word = command.word.replace(" ", "/")
    for option in command.options:
        yield _line(f"__ffrfs_in {word}", *_option(command, option))
    taking = [flag for option in command.options if option.value for flag in option.flags]
    for number, place in enumerate(places_of(command)):
        answer = _answer(place.candidates)
        if answer:
            last = _LAST if place.repeatable else number
            condition = " ".join(map(str, ["__ffrfs_at", word, number, last, *taking]))
            yield _line(condition, *answer)


def _line(condition: str, *words: str) -> str:
    return " ".join(["complete -c ffrfs -n", _quoted(condition), *words])


def _option(command: Command, option: Argument) -> list[str]:
    words = [_flag(flag) for flag in option.flags]
    if option.value:
        answer = _answer(value_of(command, option))
        words += answer if answer[:1] == ["-F"] else ["-f", *answer]
        words.append("-r")
    return [*words, "-d", _quoted(brief(option.help))]


def _mount_option(option: MountOption) -> str:
    word = option.name + ("=" if option.value else "")
    return f"        {_quoted(word)} {_quoted(brief(option.help))}"


def _flag(flag: str) -> str:
    return f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"


def _answer(candidates: Candidates) -> list[str]:
    answers = list(candidates.words)
    if candidates.kind in _ANSWERS:
        answers.append(_ANSWERS[candidates.kind])
    words = ["-F"] if candidates.kind is Kind.FILE else []
    return words + (["-a", _quoted(" ".join(answers))] if answers else [])


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
