# Made out of the argument parser: change that, not this.
# shellcheck shell=bash

_ffrfs() {
    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} flags=() taking=''
    local i word flag='' last='' glue='' ended='' place=0 first=2
    COMPREPLY=()
    if [[ ' cluster ' == *" $command "* ]] && ((COMP_CWORD > 2)); then
        command+=" ${COMP_WORDS[2]}" first=3
    fi
    case $command in
        pack) flags=(-h --help --help-all --force --include --exclude --files-from -0 --null --skip-special --symlinks --on-conflict --allow-missing --jobs --dedup --order --reproducible --shards --shard-size --append --tmp-dir --dry-run --list -q --quiet --executor --on-error --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --include --exclude --files-from --symlinks --on-conflict --jobs --order --shards --shard-size --tmp-dir --executor --on-error --endpoint-url --region --remote-timeout ' ;;
        add) flags=(-h --help --help-all --dry-run -C --directory --force) taking=' -C --directory ' ;;
        rm) flags=(-h --help --help-all --dry-run -r --recursive) ;;
        convert) flags=(-h --help --help-all --to --shards --compression --level --features --records --flat --float64 --on-error --force --tmp-dir --executor -q --quiet --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --to --shards --compression --level --float64 --on-error --tmp-dir --executor --endpoint-url --region --remote-timeout ' ;;
        index) flags=(-h --help --help-all --chunks --executor -q --quiet --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --executor --endpoint-url --region --remote-timeout ' ;;
        cluster) flags=(-h --help --help-all) ;;
        'cluster plan') flags=(-h --help --help-all --include --exclude --files-from -0 --null --skip-special --symlinks --on-conflict --allow-missing --jobs --dedup --order --reproducible --shards --shard-size --append --tmp-dir --dry-run --list -q --quiet --executor --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --include --exclude --files-from --symlinks --on-conflict --jobs --order --shards --shard-size --tmp-dir --executor --endpoint-url --region --remote-timeout ' ;;
        'cluster run') flags=(-h --help --help-all --task --executor --on-error --jobs --tmp-dir -q --quiet --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --task --executor --on-error --jobs --tmp-dir --endpoint-url --region --remote-timeout ' ;;
        'cluster commit') flags=(-h --help --help-all --on-error -q --quiet --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --on-error --endpoint-url --region --remote-timeout ' ;;
        'cluster status') flags=(-h --help --help-all --json --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --endpoint-url --region --remote-timeout ' ;;
        mount) flags=(-h --help --help-all -o --check -f --foreground --warm --config --on-conflict --allow-missing --cache-mb --max-memory --prefetch-window --read-around --prefetch-ttl --cache-dir --cache-size --cache-mode --cache-shared --offline --endpoint-url --region --anonymous --remote-timeout --log-file --metrics-file --engine --transport --threads --no-extensions --while-open) taking=' -o --config --on-conflict --cache-mb --max-memory --prefetch-window --read-around --prefetch-ttl --cache-dir --cache-size --cache-mode --endpoint-url --region --remote-timeout --log-file --metrics-file --engine --transport --threads --while-open ' ;;
        umount) flags=(-h --help --help-all --all --dead --config) taking=' --dead --config ' ;;
        run) flags=(-h --help --help-all --ahead) taking=' --ahead ' ;;
        prefetch) flags=(-h --help --help-all --from -0 --null --all) taking=' --from ' ;;
        warm) flags=(-h --help --help-all -q --quiet) ;;
        ls) flags=(--help --help-all --on-conflict --allow-missing -l --long -h --human-readable -R --recursive --json -0 --null --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --on-conflict --endpoint-url --region --remote-timeout ' ;;
        cat) flags=(-h --help --help-all --on-conflict --allow-missing --example --json --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --on-conflict --endpoint-url --region --remote-timeout ' ;;
        head) flags=(-h --help --help-all -n --json --endpoint-url --region --anonymous --offline --remote-timeout) taking=' -n --endpoint-url --region --remote-timeout ' ;;
        extract) flags=(-h --help --help-all --on-conflict --allow-missing --skip-existing --force --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --on-conflict --endpoint-url --region --remote-timeout ' ;;
        info) flags=(-h --help --help-all --json --schema --limit --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --limit --endpoint-url --region --remote-timeout ' ;;
        view) flags=(-h --help --help-all --second --schema --port --host --open --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --second --schema --port --host --endpoint-url --region --remote-timeout ' ;;
        schema) flags=(-h --help --help-all -o --output --force --json --schema --previous --serving --environment --max-domain --no-shape --jobs --on-error --endpoint-url --region --anonymous --offline --remote-timeout) taking=' -o --output --schema --previous --serving --environment --max-domain --jobs --on-error --endpoint-url --region --remote-timeout ' ;;
        verify) flags=(-h --help --help-all --jobs --executor --json -q --quiet --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --jobs --executor --endpoint-url --region --remote-timeout ' ;;
        diff) flags=(-h --help --help-all -q --quiet --endpoint-url --region --anonymous --offline --remote-timeout) taking=' --endpoint-url --region --remote-timeout ' ;;
        ps) flags=(-h --help --help-all -l --long --json) ;;
        stats) flags=(-h --help --help-all --errors --coverage --mark -v --verbose --json --prometheus) ;;
        top) flags=(-h --help --help-all --batch -n --count) taking=' -n --count ' ;;
        log) flags=(-h --help --help-all -f --follow) ;;
        check) flags=(-h --help --help-all --json) ;;
        restart) flags=(-h --help --help-all) ;;
        cache) flags=(-h --help --help-all --json --force --size) taking=' --size ' ;;
        install-units) flags=(-h --help --help-all --destdir --prefix --dry-run --force --uninstall) taking=' --destdir --prefix ' ;;
        demo) flags=(-h --help --help-all) ;;
    esac
    if ((COMP_CWORD == 1)); then
        _ffrfs_words pack add rm convert index cluster mount umount run prefetch warm ls cat head extract info view schema verify diff ps stats top log check restart cache install-units demo -h --help --help-all -V --version
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
        pack:--files-from) _ffrfs_files ;;
        pack:--symlinks) _ffrfs_words inside follow keep skip ;;
        pack:--on-conflict) _ffrfs_words error first last ;;
        pack:--order) _ffrfs_files; _ffrfs_words path size ;;
        pack:--tmp-dir) _ffrfs_folders ;;
        pack:--on-error) _ffrfs_words stop skip record ;;
        pack:[0-9]*) _ffrfs_files ;;
        add:-C) _ffrfs_folders ;;
        add:--directory) _ffrfs_folders ;;
        add:0) _ffrfs_packs ;;
        add:[0-9]*) _ffrfs_files ;;
        rm:0) _ffrfs_packs ;;
        convert:--to) _ffrfs_words tfrecord ffrecord pack jsonl parquet webdataset folder ;;
        convert:--compression) _ffrfs_words none gzip zlib ;;
        convert:--level) _ffrfs_words 0 1 2 3 4 5 6 7 8 9 ;;
        convert:--float64) _ffrfs_words cast refuse ;;
        convert:--on-error) _ffrfs_words raise skip ;;
        convert:--tmp-dir) _ffrfs_folders ;;
        convert:0) _ffrfs_files ;;
        convert:1) _ffrfs_files ;;
        index:[0-9]*) _ffrfs_files ;;
        cluster:0) _ffrfs_words plan run commit status ;;
        'cluster plan':--files-from) _ffrfs_files ;;
        'cluster plan':--symlinks) _ffrfs_words inside follow keep skip ;;
        'cluster plan':--on-conflict) _ffrfs_words error first last ;;
        'cluster plan':--order) _ffrfs_files; _ffrfs_words path size ;;
        'cluster plan':--tmp-dir) _ffrfs_folders ;;
        'cluster plan':0) _ffrfs_files ;;
        'cluster plan':[0-9]*) _ffrfs_files ;;
        'cluster run':--on-error) _ffrfs_words stop skip record ;;
        'cluster run':--tmp-dir) _ffrfs_folders ;;
        'cluster run':0) _ffrfs_files ;;
        'cluster commit':--on-error) _ffrfs_words stop skip record ;;
        'cluster commit':0) _ffrfs_files ;;
        'cluster status':0) _ffrfs_files ;;
        mount:-o) _ffrfs_mount_options ;;
        mount:--config) _ffrfs_files ;;
        mount:--on-conflict) _ffrfs_words error first last ;;
        mount:--read-around) _ffrfs_words auto on off ;;
        mount:--cache-dir) _ffrfs_folders ;;
        mount:--cache-mode) _ffrfs_words full stream ;;
        mount:--log-file) _ffrfs_files ;;
        mount:--metrics-file) _ffrfs_files ;;
        mount:--engine) _ffrfs_words auto native pyfuse3 ;;
        mount:--transport) _ffrfs_words auto dev uring ;;
        mount:[0-9]*) _ffrfs_packs ;;
        umount:--dead) _ffrfs_mounts ;;
        umount:--config) _ffrfs_files ;;
        umount:0) _ffrfs_mounts ;;
        run:[0-9]*) _ffrfs_files ;;
        prefetch:--from) _ffrfs_files ;;
        prefetch:0) _ffrfs_mounts ;;
        prefetch:[0-9]*) _ffrfs_files ;;
        warm:0) _ffrfs_mounts ;;
        ls:--on-conflict) _ffrfs_words error first last ;;
        ls:0) _ffrfs_packs ;;
        cat:--on-conflict) _ffrfs_words error first last ;;
        cat:0) _ffrfs_packs ;;
        head:0) _ffrfs_files ;;
        extract:--on-conflict) _ffrfs_words error first last ;;
        extract:0) _ffrfs_packs ;;
        extract:1) _ffrfs_folders ;;
        info:[0-9]*) _ffrfs_packs ;;
        view:--second) _ffrfs_packs ;;
        view:--schema) _ffrfs_files ;;
        view:[0-9]*) _ffrfs_packs ;;
        schema:-o) _ffrfs_files ;;
        schema:--output) _ffrfs_files ;;
        schema:--schema) _ffrfs_files ;;
        schema:--previous) _ffrfs_files ;;
        schema:--serving) _ffrfs_files ;;
        schema:--on-error) _ffrfs_words raise skip ;;
        schema:0) _ffrfs_words stats infer validate show ;;
        schema:[0-9]*) _ffrfs_files ;;
        verify:[0-9]*) _ffrfs_packs ;;
        diff:0) _ffrfs_packs ;;
        diff:1) _ffrfs_packs ;;
        stats:0) _ffrfs_mounts ;;
        top:0) _ffrfs_mounts ;;
        log:0) _ffrfs_mounts ;;
        check:[0-9]*) _ffrfs_mounts ;;
        restart:0) _ffrfs_mounts ;;
        cache:0) _ffrfs_words ls du verify prune rm pin unpin ;;
        cache:1) _ffrfs_folders ;;
        install-units:--destdir) _ffrfs_folders ;;
        install-units:--prefix) _ffrfs_folders ;;
        demo:0) _ffrfs_folders ;;
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
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "allow_other allow_root uid= gid= umask= fsname= xattr nonempty noexec suid dev nosymfollow cache_mb= no_extensions prefetch_window= config= sloppy on_conflict= allow_missing max_memory= read_around= prefetch_ttl= cache_dir= cache_size= cache_mode= cache_shared offline endpoint_url= region= anonymous remote_timeout= log_file= metrics_file= engine= transport= threads=" -- "${cur##*,}")
}

complete -F _ffrfs ffrfs
