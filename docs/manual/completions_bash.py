"""Completions for bash; they need nothing from the package bash-completion.

No state: safe from any thread.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from manual.arguments import Command
from manual.candidates import Candidates, Kind, mount_options, places_of, value_of

_FRAME = r"""# Made out of the argument parser: change that, not this.
# shellcheck shell=bash

_ffrfs() {
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} flags=() taking=''
    local i word flag='' last='' glue='' ended='' place=0 first=2
    COMPREPLY=()
    if [[ ' @WITH_ACTIONS@ ' == *" $command "* ]] && ((COMP_CWORD > 2)); then
        command+=" ${COMP_WORDS[2]}" first=3
    fi
    case $command in
@FLAGS@
    esac
    if ((COMP_CWORD == 1)); then
        _ffrfs_words @COMMANDS@
        return
    fi
    # Which flag waits for its value, and how many places are taken? bash takes words apart at
    # "=" and ":", so a=b and a:b come as three.
    for ((i = first; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [[ $word == '=' && $flag ]]; then
            glue=''
        elif [[ $word == [=:] ]]; then
            glue=$word
        elif ((i == COMP_CWORD)); then
            break
        elif [[ $glue ]]; then
            glue=''
        elif [[ $flag ]]; then
            last=$flag flag=''
        elif [[ $word == -- && ! $ended ]]; then
            ended=1
        elif [[ $word == -* && ! $ended ]]; then
            [[ $taking == *" $word "* ]] && flag=$word
        else
            last=$((place++))
        fi
    done
    [[ $cur == [=:] ]] && cur=''
    if [[ $flag ]]; then
        _ffrfs_value "$command" "$flag"
    elif [[ $glue == ':' || $glue && $cur == *,* ]]; then
        _ffrfs_value "$command" "$last"
    elif [[ $glue ]]; then
        return
    elif [[ $cur == -* && ! $ended ]]; then
        _ffrfs_words "${flags[@]}"
    else
        _ffrfs_value "$command" "$place"
    fi
}

# The value of a flag, or of a positional argument, counted from 0.
_ffrfs_value() { # COMMAND FLAG|PLACE
    case $1:$2 in
@VALUES@
    esac
}

_ffrfs_words() {
    mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur")
}

_ffrfs_files() {
    compopt -o default 2>/dev/null
}

_ffrfs_folders() {
    compopt -o dirnames 2>/dev/null
}

_ffrfs_packs() { # directories, too; any file if there is no pack
    local name
    compopt -o filenames -o default 2>/dev/null
    while IFS= read -r name; do
        case $name in
            *.idx) ;;
            *.ffr | *.tfrecord*) COMPREPLY+=("$name") ;;
            *) [[ -d ${name/#\~/$HOME} ]] && COMPREPLY+=("$name") ;;
        esac
    done < <(compgen -f -- "$cur")
}

# By the kernel's list, which can be read whatever has become of the mounts.
_ffrfs_mounts() {
    local line fields name
    while read -r line; do
        [[ $line == *' - fuse.ffrfs '* ]] || continue
        read -ra fields <<<"$line"
        printf -v name %b "${fields[4]//\\/\\0}"
        printf -v name %q "$name"
        [[ $name == "$cur"* ]] && COMPREPLY+=("$name")
    done </proc/self/mountinfo
}

_ffrfs_mount_options() { # words with commas between them
    local before=''
    [[ $cur == *,* ]] && before=${cur%,*},
    compopt -o nospace 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "@MOUNT_OPTIONS@" -- "${cur##*,}")
}

complete -F _ffrfs ffrfs
"""
_FUNCTIONS = {
    Kind.FILE: "_ffrfs_files",
    Kind.FOLDER: "_ffrfs_folders",
    Kind.PACK: "_ffrfs_packs",
    Kind.MOUNT: "_ffrfs_mounts",
    Kind.MOUNT_OPTIONS: "_ffrfs_mount_options",
}


def bash_script(program: Command) -> str:
    words = [*(word for word in program.words if " " not in word), *_flags(program)]
    options = mount_options(program.command("mount"))
    parts = {
        "COMMANDS": " ".join(words),
        "WITH_ACTIONS": " ".join(program.with_actions),
        "FLAGS": "\n".join(map(_case_of_flags, program.commands)),
        "VALUES": "\n".join(
            line for command in program.commands for line in _cases_of_values(command)
        ),
        "MOUNT_OPTIONS": " ".join(o.name + ("=" if o.value else "") for o in options),
    }
    script = _FRAME
    for name, text in parts.items():
        script = script.replace(f"@{name}@", text)
    return script


def _flags(command: Command) -> list[str]:
    return [flag for option in command.options for flag in option.flags]


def _case_of_flags(command: Command) -> str:
    taking = [flag for option in command.options if option.value for flag in option.flags]
    text = f"flags=({' '.join(_flags(command))})"
    if taking:
        text += f" taking=' {' '.join(taking)} '"
    return f"        {shlex.quote(command.word)}) {text} ;;"


def _cases_of_values(command: Command) -> Iterator[str]:
    for option in command.options:
        if option.value:
            action = _action(value_of(command, option))
            for flag in option.flags if action else ():
                yield f"        {shlex.quote(command.word)}:{flag}) {action} ;;"
    for number, place in enumerate(places_of(command)):
        action = _action(place.candidates)
        if action:
            pattern = "[0-9]*" if place.repeatable else number
            yield f"        {shlex.quote(command.word)}:{pattern}) {action} ;;"


def _action(candidates: Candidates) -> str:
    parts = [_FUNCTIONS[candidates.kind]] if candidates.kind in _FUNCTIONS else []
    if candidates.words:
        parts.append(f"_ffrfs_words {' '.join(candidates.words)}")
    return "; ".join(parts)
