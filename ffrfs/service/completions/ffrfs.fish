# Made out of the argument parser: change that, not this.

function __ffrfs_without_command
    test (count (commandline -opc)) -eq 1
end

function __ffrfs_in -a command
    set -l words (commandline -opc)
    test (count $words) -gt 1 -a "$words[2]" = $command
end

# Whether the cursor stands at the place FIRST of COMMAND, counted from 0, or behind it, up to
# LAST. What follows are flags that take a value: theirs stand at no place.
function __ffrfs_at -a command first last
    __ffrfs_in $command; or return
    set -l place 0
    set -l words (commandline -opc)
    set -l is_value 0
    set -l is_ended 0
    for word in $words[3..-1]
        if test $is_value -eq 1
            set is_value 0
        else if test $is_ended -eq 0; and test "x$word" = x--
            set is_ended 1
        else if test $is_ended -eq 1; or not string match -q -- '-*' $word
            set place (math $place + 1)
        else if contains -- $word $argv[4..-1]
            set is_value 1
        end
    end
    test $is_value -eq 0 -a $place -ge $first -a $place -le $last
end

# Folders too; any file where there is no pack.
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
        'allow_other' 'let all users in, or root besides yourself' \
        'allow_root' 'let all users in, or root besides yourself' \
        'uid=' 'owner and permissions of the tree' \
        'gid=' 'owner and permissions of the tree' \
        'umask=' 'owner and permissions of the tree' \
        'fsname=' 'first column of /proc/mounts' \
        'xattr' 'show user.ffrfs.record and user.ffrfs.crc32' \
        'nonempty' 'cover a mount point that is not empty' \
        'noexec' 'as mount(8)' \
        'suid' 'as mount(8)' \
        'dev' 'as mount(8)' \
        'cache_mb=' 'memory for all buffers together' \
        'no_extensions' 'TFRecord: name features as they are, without .jpg, .npy and the like' \
        'prefetch_window=' 'how far to read ahead of a reader, in records and bytes' \
        'config=' 'read what is not on the command line from FILE, see below' \
        'sloppy' 'pass over words that are unknown' \
        'on_conflict=' 'of a path that stands in several packs show the first PACK\'s or the last\'s' \
        'allow_missing' 'show the rest if packs cannot be opened' \
        'engine=' 'what answers the kernel' \
        'threads=' 'threads of the native engine, 1 to 16' \
        'max_memory=' 'memory of all its processes together, as in 512M or 2G' \
        'prefetch_ttl=' 'drop what was read ahead and is not asked for by then' \
        'log_file=' 'where the daemon logs' \
        'metrics_file=' 'write metrics there every 15 seconds')
        printf '%s\n' "$before$line"
    end
end

complete -c ffrfs -f

complete -c ffrfs -n '__ffrfs_without_command' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_without_command' -l version -d 'show program\'s version number and exit'

complete -c ffrfs -n '__ffrfs_without_command' -a pack -d 'pack a folder into one file'
complete -c ffrfs -n '__ffrfs_in pack' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in pack' -l include -f -r -d 'pack these only'
complete -c ffrfs -n '__ffrfs_in pack' -l exclude -f -r -d 'leave these out'
complete -c ffrfs -n '__ffrfs_in pack' -l jobs -f -r -d 'threads that read'
complete -c ffrfs -n '__ffrfs_in pack' -l skip-special -d 'leave out sockets, FIFOs, devices and names that are not UTF-8'
complete -c ffrfs -n '__ffrfs_in pack' -l symlinks -f -a 'follow keep' -r -d 'pack what symbolic links lead to'
complete -c ffrfs -n '__ffrfs_in pack' -l dedup -d 'store files that are equal byte for byte once'
complete -c ffrfs -n '__ffrfs_in pack' -l order -F -a 'path size' -r -d 'how the files follow each other'
complete -c ffrfs -n '__ffrfs_in pack' -l reproducible -d 'the same files give the same bytes'
complete -c ffrfs -n '__ffrfs_in pack' -l shards -f -r -d 'write N packs, about equal'
complete -c ffrfs -n '__ffrfs_in pack' -l shard-size -f -r -d 'write packs of at most SIZE'
complete -c ffrfs -n '__ffrfs_in pack' -l append -d 'add packs to the folder of packs DST'
complete -c ffrfs -n '__ffrfs_in pack' -s q -l quiet -d 'print errors only'
complete -c ffrfs -n '__ffrfs_at pack 0 0 --include --exclude --jobs --symlinks --order --shards --shard-size' -F
complete -c ffrfs -n '__ffrfs_at pack 1 1 --include --exclude --jobs --symlinks --order --shards --shard-size' -F

complete -c ffrfs -n '__ffrfs_without_command' -a convert -d 'convert between TFRecord, FFRecord and packed folders'
complete -c ffrfs -n '__ffrfs_in convert' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in convert' -l to -f -a 'tfrecord ffrecord folder' -r -d 'what DST becomes'
complete -c ffrfs -n '__ffrfs_in convert' -l compression -f -a 'none gzip zlib' -r -d 'of a TFRecord file'
complete -c ffrfs -n '__ffrfs_in convert' -l level -f -a '0 1 2 3 4 5 6 7 8 9' -r -d 'of the compression, 0 to 9'
complete -c ffrfs -n '__ffrfs_in convert' -l features -d 'a folder per record, a file per feature'
complete -c ffrfs -n '__ffrfs_in convert' -l records -d 'the records that a packed folder was made of'
complete -c ffrfs -n '__ffrfs_in convert' -l on-error -f -a 'raise skip' -r -d 'what becomes of a damaged record'
complete -c ffrfs -n '__ffrfs_in convert' -s q -l quiet -d 'print errors only'
complete -c ffrfs -n '__ffrfs_at convert 0 0 --to --compression --level --on-error' -F
complete -c ffrfs -n '__ffrfs_at convert 1 1 --to --compression --level --on-error' -F

complete -c ffrfs -n '__ffrfs_without_command' -a index -d 'write an index for packs that carry none, or for TFRecord files'
complete -c ffrfs -n '__ffrfs_in index' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in index' -l chunks -d 'of packs: read the larger files'
complete -c ffrfs -n '__ffrfs_in index' -s q -l quiet -d 'print errors only'
complete -c ffrfs -n '__ffrfs_at index 0 999' -F

complete -c ffrfs -n '__ffrfs_without_command' -a mount -d 'mount a packed file or TFRecord files as a read-only directory tree'
complete -c ffrfs -n '__ffrfs_in mount' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in mount' -s f -l foreground -d 'serve from this process'
complete -c ffrfs -n '__ffrfs_in mount' -s o -f -a '(__ffrfs_mount_options)' -r -d 'mount options, with commas between them'
complete -c ffrfs -n '__ffrfs_in mount' -l on-conflict -f -a 'error first last' -r -d 'of a path that stands in several packs show the first PACK\'s or the last\'s'
complete -c ffrfs -n '__ffrfs_in mount' -l allow-missing -d 'show the rest if packs cannot be opened'
complete -c ffrfs -n '__ffrfs_in mount' -l engine -f -a 'auto native pyfuse3' -r -d 'what answers the kernel'
complete -c ffrfs -n '__ffrfs_in mount' -l threads -f -r -d 'threads of the native engine, 1 to 16'
complete -c ffrfs -n '__ffrfs_in mount' -l cache-mb -f -r -d 'memory for all buffers together'
complete -c ffrfs -n '__ffrfs_in mount' -l max-memory -f -r -d 'memory of all its processes together, as in 512M or 2G'
complete -c ffrfs -n '__ffrfs_in mount' -l prefetch-window -f -r -d 'how far to read ahead of a reader, in records and bytes'
complete -c ffrfs -n '__ffrfs_in mount' -l prefetch-ttl -f -r -d 'drop what was read ahead and is not asked for by then'
complete -c ffrfs -n '__ffrfs_in mount' -l no-extensions -d 'TFRecord: name features as they are, without .jpg, .npy and the like'
complete -c ffrfs -n '__ffrfs_in mount' -l log-file -F -r -d 'where the daemon logs'
complete -c ffrfs -n '__ffrfs_in mount' -l metrics-file -F -r -d 'write metrics there every 15 seconds'
complete -c ffrfs -n '__ffrfs_in mount' -l config -F -r -d 'read what is not on the command line from FILE, see below'
complete -c ffrfs -n '__ffrfs_in mount' -l check -d 'do not mount, nor leave anything'
complete -c ffrfs -n '__ffrfs_in mount' -l while-open -f -r -d 'unmount when the other end of this inherited pipe is closed'
complete -c ffrfs -n '__ffrfs_at mount 0 999 -o --on-conflict --engine --threads --cache-mb --max-memory --prefetch-window --prefetch-ttl --log-file --metrics-file --config --while-open' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a umount -d 'unmount, also after the daemon has died'
complete -c ffrfs -n '__ffrfs_in umount' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in umount' -l all -d 'all mounts of this user, live and dead'
complete -c ffrfs -n '__ffrfs_in umount' -l dead -f -a '(__ffrfs_mounts)' -r -d 'unmount MOUNTPOINT only if its daemon has died'
complete -c ffrfs -n '__ffrfs_at umount 0 0 --dead' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a prefetch -d 'tell a mount what will be read, in order'
complete -c ffrfs -n '__ffrfs_in prefetch' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in prefetch' -l from -F -r -d 'take more of them from FILE, one a line'
complete -c ffrfs -n '__ffrfs_in prefetch' -s 0 -l null -d 'FILE has a zero byte after each, as find -print0 writes it'
complete -c ffrfs -n '__ffrfs_at prefetch 0 0 --from' -a '(__ffrfs_mounts)'
complete -c ffrfs -n '__ffrfs_at prefetch 1 999 --from' -F

complete -c ffrfs -n '__ffrfs_without_command' -a stats -d 'show what a mount has done and how fast'
complete -c ffrfs -n '__ffrfs_in stats' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in stats' -l json -d 'as a JSON object'
complete -c ffrfs -n '__ffrfs_in stats' -l prometheus -d 'in the text format of Prometheus, as mount --metrics-file writes it'
complete -c ffrfs -n '__ffrfs_at stats 0 0' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a ps -d 'list the mounts of this user, live and dead'
complete -c ffrfs -n '__ffrfs_in ps' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in ps' -l json -d 'as a JSON array'

complete -c ffrfs -n '__ffrfs_without_command' -a top -d 'watch a mount at work'
complete -c ffrfs -n '__ffrfs_in top' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in top' -l batch -d 'print the figures below each other, as is done without a terminal'
complete -c ffrfs -n '__ffrfs_in top' -s n -l count -f -r -d 'print them so often below each other, and end'
complete -c ffrfs -n '__ffrfs_at top 0 0 -n --count' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a ls -d 'list a packed file'
complete -c ffrfs -n '__ffrfs_in ls' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in ls' -l on-conflict -f -a 'error first last' -r -d 'of a path that stands in several packs show the first pack\'s or the last\'s'
complete -c ffrfs -n '__ffrfs_in ls' -l allow-missing -d 'show the rest if packs cannot be opened'
complete -c ffrfs -n '__ffrfs_in ls' -s l -l long -d 'with mode, size, time, and where links lead'
complete -c ffrfs -n '__ffrfs_in ls' -s R -l recursive -d 'with all that is in its folders'
complete -c ffrfs -n '__ffrfs_in ls' -l json -d 'as a JSON array'
complete -c ffrfs -n '__ffrfs_at ls 0 0 --on-conflict' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a cat -d 'write files of a packed file to stdout'
complete -c ffrfs -n '__ffrfs_in cat' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in cat' -l on-conflict -f -a 'error first last' -r -d 'of a path that stands in several packs show the first pack\'s or the last\'s'
complete -c ffrfs -n '__ffrfs_in cat' -l allow-missing -d 'show the rest if packs cannot be opened'
complete -c ffrfs -n '__ffrfs_at cat 0 0 --on-conflict' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a extract -d 'write files of a packed file to a folder'
complete -c ffrfs -n '__ffrfs_in extract' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in extract' -l on-conflict -f -a 'error first last' -r -d 'of a path that stands in several packs show the first pack\'s or the last\'s'
complete -c ffrfs -n '__ffrfs_in extract' -l allow-missing -d 'show the rest if packs cannot be opened'
complete -c ffrfs -n '__ffrfs_at extract 0 0 --on-conflict' -a '(__ffrfs_packs)'
complete -c ffrfs -n '__ffrfs_at extract 1 1 --on-conflict' -a '(__fish_complete_directories)'

complete -c ffrfs -n '__ffrfs_without_command' -a info -d 'show what packed files hold, in numbers'
complete -c ffrfs -n '__ffrfs_in info' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in info' -l json -d 'as a JSON object'
complete -c ffrfs -n '__ffrfs_in info' -l schema -d 'of TFRecord: read the records, and show for each feature its type'
complete -c ffrfs -n '__ffrfs_in info' -l limit -f -r -d 'with --schema: read the first N records only'
complete -c ffrfs -n '__ffrfs_at info 0 999 --limit' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a verify -d 'read packed files whole and name what is damaged'
complete -c ffrfs -n '__ffrfs_in verify' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in verify' -l jobs -f -r -d 'threads that check'
complete -c ffrfs -n '__ffrfs_in verify' -l json -d 'print a JSON object instead'
complete -c ffrfs -n '__ffrfs_in verify' -s q -l quiet -d 'print only what is damaged'
complete -c ffrfs -n '__ffrfs_at verify 0 999 --jobs' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a install-units -d 'install systemd units, helpers of mount(8), manual pages and completions'
complete -c ffrfs -n '__ffrfs_in install-units' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in install-units' -l destdir -f -a '(__fish_complete_directories)' -r -d 'below DIR instead of /, to be packaged or looked at'
complete -c ffrfs -n '__ffrfs_in install-units' -l prefix -f -a '(__fish_complete_directories)' -r -d 'where all but the helpers of mount(8) go'
complete -c ffrfs -n '__ffrfs_in install-units' -l dry-run -d 'say what would be done, do nothing'
complete -c ffrfs -n '__ffrfs_in install-units' -l force -d 'also replace or remove what others have changed'
complete -c ffrfs -n '__ffrfs_in install-units' -l uninstall -d 'remove what was installed, and nothing else'
