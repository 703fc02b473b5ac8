"""Completions for zsh, by its own `_arguments`.

No state: safe from any thread.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from manual.arguments import Argument, Command
from manual.candidates import (
    Candidates,
    Kind,
    MountOption,
    Place,
    brief,
    mount_options,
    places_of,
    value_of,
)

_FRAME = r"""#compdef ffrfs
# Made out of the argument parser: change that, not this.

_ffrfs() {
    local curcontext=$curcontext ret=1
    local -a line state commands
    local -A opt_args
    commands=(
@COMMANDS@
    )
    _arguments -C \
@OPTIONS@
        '1:COMMAND:->command' \
        '*::argument:->argument' && ret=0
    case $state in
        command) _describe -t commands command commands && ret=0 ;;
        argument)
            curcontext=${curcontext%:*:*}:ffrfs-$line[1]:
            if [[ $words[1] == (@WITH_ACTIONS@) ]] && (( CURRENT > 2 )); then
                line[1]+=" $words[2]"
                shift words
                (( CURRENT-- ))
            fi
            case $line[1] in
@CASES@
            esac
            ;;
    esac
    return ret
}

_ffrfs_packs() { # directories, too; PACK1:PACK2
    local -a packs=(-g '(*.ffr|*.tfrecord*~*.idx)(-.)')
    _files $packs || { compset -P '*:' && _files $packs }
}

# By the kernel's list, which can be read whatever has become of the mounts.
_ffrfs_mounts() {
    local entry expl
    local -a mounts
    while read -r entry; do
        [[ $entry == *' - fuse.ffrfs '* ]] && mounts+=("${(g:o:)${entry[(w)5]}}")
    done </proc/self/mountinfo
    _wanted mounts expl 'mount point' compadd -a mounts
}

_ffrfs_mount_options() { # words with commas between them
    local -a words=(
@MOUNT_OPTIONS@
    )
    compset -P '*,'
    _describe -t mount-options 'mount option' words -S ''
}

if [[ $funcstack[1] == _ffrfs ]]; then
    _ffrfs "$@"
else # not loaded by compinit, but read
    compdef _ffrfs ffrfs
fi
"""
_ACTIONS = {
    Kind.NOTHING: " ",
    Kind.FILE: "_files",
    Kind.FOLDER: "_files -/",
    Kind.PACK: "_ffrfs_packs",
    Kind.MOUNT: "_ffrfs_mounts",
    Kind.MOUNT_OPTIONS: "_ffrfs_mount_options",
}


def zsh_script(program: Command) -> str:
    options = mount_options(program.command("mount"))
    parts = {
        "COMMANDS": "\n".join(
            f"        {_quoted(f'{command.word}:{command.summary}')}"
            for command in program.commands
            if " " not in command.word
        ),
        "WITH_ACTIONS": "|".join(program.with_actions),
        "OPTIONS": "\n".join(f"        {_option(program, o)} \\" for o in program.options),
        "CASES": "\n".join(line for command in program.commands for line in _case(command)),
        "MOUNT_OPTIONS": "\n".join(f"        {_mount_option(option)}" for option in options),
    }
    script = _FRAME
    for name, text in parts.items():
        script = script.replace(f"@{name}@", text)
    return script


def _case(command: Command) -> Iterator[str]:
    specs = [_option(command, option) for option in command.options]
    specs += [_place(number, place) for number, place in enumerate(places_of(command), 1)]
    yield f"                {shlex.quote(command.word)})"
    yield "                    _arguments -S \\"
    yield from (f"                        {spec} \\" for spec in specs)
    yield "                        && ret=0"
    yield "                    ;;"


def _option(command: Command, option: Argument) -> str:
    """Return a spec of _arguments: '(excluded)'{-f,--flag=}'[help]:NAME:action'."""
    value = value_of(command, option) if option.value else None
    flags = [_flag(flag, value is not None) for flag in option.flags]
    spelt = flags[0] if len(flags) == 1 else "{" + ",".join(flags) + "}"
    excluded = [*option.excludes, *(option.flags if len(flags) > 1 else ())]
    if command.commands:  # the program itself: its options print something and end it
        before = "'(- *)'"
    elif option.repeatable:
        before = "'*'"
    elif excluded:
        before = _quoted(f"({' '.join(excluded)})")
    else:
        before = ""
    text = f"[{_escaped(brief(option.help), '[]')}]"
    if value is not None:
        text += f":{_escaped(value.name, ':')}:{_action(value)}"
    return f"{before}{spelt}{_quoted(text)}"


def _flag(flag: str, takes_value: bool) -> str:
    if not takes_value:
        return flag
    return f"{flag}=" if flag.startswith("--") else f"{flag}+"


def _place(number: int, place: Place) -> str:
    position = "*" if place.repeatable else f"{number}:" if place.optional else f"{number}"
    name = _escaped(place.candidates.name, ":")
    return _quoted(f"{position}:{name}:{_action(place.candidates)}")


def _action(candidates: Candidates) -> str:
    words = f"({' '.join(candidates.words)})" if candidates.words else ""
    if not words:
        return _ACTIONS[candidates.kind]
    if candidates.kind is Kind.NOTHING:
        return words
    action = _ACTIONS[candidates.kind]
    # After a space, _arguments passes no arguments of its own to the function that it calls.
    return _escaped(f' _alternative "words:word:{words}" "files:file:{action}"', ":")


def _mount_option(option: MountOption) -> str:
    word = option.name + ("=" if option.value else "")
    return _quoted(f"{word}:{brief(option.help)}")


def _escaped(text: str, special: str) -> str:
    for char in "\\" + special:
        text = text.replace(char, "\\" + char)
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"
