# Made out of the argument parser: change that, not this.

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
        'allow_other' 'give access to all users, or to root and yourself' \
        'allow_root' 'give access to all users, or to root and yourself' \
        'uid=' 'owner and permissions of the tree' \
        'gid=' 'owner and permissions of the tree' \
        'umask=' 'owner and permissions of the tree' \
        'fsname=' 'first column of /proc/mounts' \
        'xattr' 'show user.ffrfs.record and user.ffrfs.crc32' \
        'nonempty' 'mount over a directory that is not empty' \
        'noexec' 'as in mount(8)' \
        'suid' 'as in mount(8)' \
        'dev' 'as in mount(8)' \
        'nosymfollow' 'as in mount(8)' \
        'cache_mb=' 'memory for all buffers together, in MiB' \
        'no_extensions' 'show features of TFRecord files without extensions' \
        'prefetch_window=' 'how far to read ahead of a reader, in records and bytes' \
        'config=' 'read settings that are not on the command line from FILE, see below' \
        'sloppy' 'ignore unknown words' \
        'on_conflict=' 'show the first or the last pack\'s file if several contain its path' \
        'allow_missing' 'show the other packs if some cannot be opened' \
        'max_memory=' 'memory limit of all processes of the mount together, as in 512M or 2G' \
        'read_around=' 'if a program reads small files in no order' \
        'prefetch_ttl=' 'drop data read ahead if no reader asks for it within SECONDS' \
        'cache_dir=' 'keep fetched blocks in DIR' \
        'cache_size=' 'limit of the cache directory, as in 500G' \
        'cache_mode=' 'full keeps fetched blocks' \
        'cache_shared' 'use a cache directory to which a group may write' \
        'offline' 'read from the cache alone, and ask no server' \
        'endpoint_url=' 'the server of s3://, gs:// or az://' \
        'region=' 'region of S3' \
        'anonymous' 'use no credentials, for public buckets' \
        'remote_timeout=' 'fail a read whose bytes do not come within SECONDS' \
        'log_file=' 'log file of the daemon' \
        'metrics_file=' 'write metrics to FILE every 15 seconds' \
        'engine=' 'engine that serves the mount' \
        'transport=' 'how the native engine gets the kernel\'s requests' \
        'threads=' 'threads of the native engine, 1 to 16')
        printf '%s\n' "$before$line"
    end
end

complete -c ffrfs -f

complete -c ffrfs -n '__ffrfs_without_command' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_without_command' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_without_command' -s V -l version -d 'show program\'s version number and exit'

complete -c ffrfs -n '__ffrfs_without_command' -a pack -d 'pack a directory, an archive or other packs into one file'
complete -c ffrfs -n '__ffrfs_in pack' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in pack' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in pack' -l force -d 'replace the file DST.ffr'
complete -c ffrfs -n '__ffrfs_in pack' -l include -f -r -d 'pack only files that match'
complete -c ffrfs -n '__ffrfs_in pack' -l exclude -f -r -d 'leave out files that match'
complete -c ffrfs -n '__ffrfs_in pack' -l files-from -F -r -d 'pack only the paths that FILE lists, one per line'
complete -c ffrfs -n '__ffrfs_in pack' -s 0 -l null -d 'paths in FILE, and paths that --list prints, end with a zero byte'
complete -c ffrfs -n '__ffrfs_in pack' -l skip-special -d 'leave out sockets, FIFOs, devices and names that are not UTF-8'
complete -c ffrfs -n '__ffrfs_in pack' -l symlinks -f -a 'inside follow keep skip' -r -d 'inside'
complete -c ffrfs -n '__ffrfs_in pack' -l on-conflict -f -a 'error first last' -r -d 'pack the first or the last pack\'s file if several packs contain its path'
complete -c ffrfs -n '__ffrfs_in pack' -l allow-missing -d 'pack the other packs if some cannot be opened'
complete -c ffrfs -n '__ffrfs_in pack' -l jobs -f -r -d 'reading threads'
complete -c ffrfs -n '__ffrfs_in pack' -l dedup -d 'store files with equal contents once'
complete -c ffrfs -n '__ffrfs_in pack' -l order -F -a 'path size' -r -d 'order of files in the pack'
complete -c ffrfs -n '__ffrfs_in pack' -l reproducible -d 'make packing deterministic'
complete -c ffrfs -n '__ffrfs_in pack' -l shards -f -r -d 'write N packs of about equal size'
complete -c ffrfs -n '__ffrfs_in pack' -l shard-size -f -r -d 'write packs of at most SIZE, as in 10G'
complete -c ffrfs -n '__ffrfs_in pack' -l append -d 'add packs to the pack set DST'
complete -c ffrfs -n '__ffrfs_in pack' -l tmp-dir -f -a '(__fish_complete_directories)' -r -d 'if DST is a URL: make the packs in DIR'
complete -c ffrfs -n '__ffrfs_in pack' -l dry-run -d 'print what would be packed, and write nothing'
complete -c ffrfs -n '__ffrfs_in pack' -l list -d 'with --dry-run: print the paths of the files, in the order of the pack'
complete -c ffrfs -n '__ffrfs_in pack' -s q -l quiet -d 'print errors only'
complete -c ffrfs -n '__ffrfs_in pack' -l executor -f -r -d 'make the shards by processes[:N] of this machine, dask://HOST:PORT'
complete -c ffrfs -n '__ffrfs_in pack' -l on-error -f -a 'stop skip record' -r -d 'if a file changed, vanished or cannot be read'
complete -c ffrfs -n '__ffrfs_in pack' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in pack' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in pack' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in pack' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in pack' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at pack 0 999 --include --exclude --files-from --symlinks --on-conflict --jobs --order --shards --shard-size --tmp-dir --executor --on-error --endpoint-url --region --remote-timeout' -F

complete -c ffrfs -n '__ffrfs_without_command' -a add -d 'add files to a pack, or replace some'
complete -c ffrfs -n '__ffrfs_in add' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in add' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in add' -l dry-run -d 'print what would be done, and write nothing'
complete -c ffrfs -n '__ffrfs_in add' -s C -l directory -f -a '(__fish_complete_directories)' -r -d 'the directory that contains FILE'
complete -c ffrfs -n '__ffrfs_in add' -l force -d 'replace files and links that have the same path'
complete -c ffrfs -n '__ffrfs_at add 0 0 -C --directory' -a '(__ffrfs_packs)'
complete -c ffrfs -n '__ffrfs_at add 1 999 -C --directory' -F

complete -c ffrfs -n '__ffrfs_without_command' -a rm -d 'remove files from a pack'
complete -c ffrfs -n '__ffrfs_in rm' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in rm' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in rm' -l dry-run -d 'print what would be done, and write nothing'
complete -c ffrfs -n '__ffrfs_in rm' -s r -l recursive -d 'remove directories, too, with all files below them'
complete -c ffrfs -n '__ffrfs_at rm 0 0' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a convert -d 'convert between TFRecord, FFRecord, packs, JSON lines, Parquet and WebDataset'
complete -c ffrfs -n '__ffrfs_in convert' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in convert' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in convert' -l to -f -a 'tfrecord ffrecord pack jsonl parquet webdataset folder' -r -d 'the format of DST'
complete -c ffrfs -n '__ffrfs_in convert' -l shards -f -r -d 'write N TFRecord, Parquet or tar files into the new directory DST'
complete -c ffrfs -n '__ffrfs_in convert' -l compression -f -a 'none gzip zlib' -r -d 'compression of a TFRecord file'
complete -c ffrfs -n '__ffrfs_in convert' -l level -f -a '0 1 2 3 4 5 6 7 8 9' -r -d 'compression level, 0 to 9'
complete -c ffrfs -n '__ffrfs_in convert' -l features -d 'write a directory per record, and a file per feature'
complete -c ffrfs -n '__ffrfs_in convert' -l records -d 'write the records that the pack SRC was made of'
complete -c ffrfs -n '__ffrfs_in convert' -l flat -d 'write JSON lines with a value or list for each feature'
complete -c ffrfs -n '__ffrfs_in convert' -l float64 -f -a 'cast refuse' -r -d 'double columns of Parquet, CSV and Arrow'
complete -c ffrfs -n '__ffrfs_in convert' -l on-error -f -a 'raise skip' -r -d 'how to treat a damaged record'
complete -c ffrfs -n '__ffrfs_in convert' -l force -d 'replace the file DST'
complete -c ffrfs -n '__ffrfs_in convert' -l tmp-dir -f -a '(__fish_complete_directories)' -r -d 'if DST is a URL: make the files in DIR'
complete -c ffrfs -n '__ffrfs_in convert' -l executor -f -r -d 'convert each file of the directory SRC to one in DST by processes[:N] of this machine, dask://HOST:PORT, ray, ray://HOST:PORT or mpi'
complete -c ffrfs -n '__ffrfs_in convert' -s q -l quiet -d 'print errors only'
complete -c ffrfs -n '__ffrfs_in convert' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in convert' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in convert' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in convert' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in convert' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at convert 0 0 --to --shards --compression --level --float64 --on-error --tmp-dir --executor --endpoint-url --region --remote-timeout' -F
complete -c ffrfs -n '__ffrfs_at convert 1 1 --to --shards --compression --level --float64 --on-error --tmp-dir --executor --endpoint-url --region --remote-timeout' -F

complete -c ffrfs -n '__ffrfs_without_command' -a index -d 'write index sidecars for packs without an index, and for TFRecord files'
complete -c ffrfs -n '__ffrfs_in index' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in index' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in index' -l chunks -d 'also store a checksum per MiB of large files in packs'
complete -c ffrfs -n '__ffrfs_in index' -l executor -f -r -d 'write the indexes by processes[:N] of this machine, dask://HOST:PORT'
complete -c ffrfs -n '__ffrfs_in index' -s q -l quiet -d 'print errors only'
complete -c ffrfs -n '__ffrfs_in index' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in index' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in index' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in index' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in index' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at index 0 999 --executor --endpoint-url --region --remote-timeout' -F

complete -c ffrfs -n '__ffrfs_without_command' -a cluster -d 'make a pack set with many machines, by a plan'
complete -c ffrfs -n '__ffrfs_in cluster' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in cluster' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_at cluster 0 0' -a 'plan run commit status'

complete -c ffrfs -n '__ffrfs_in cluster/plan' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l include -f -r -d 'pack only files that match'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l exclude -f -r -d 'leave out files that match'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l files-from -F -r -d 'pack only the paths that FILE lists, one per line'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -s 0 -l null -d 'paths in FILE, and paths that --list prints, end with a zero byte'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l skip-special -d 'leave out sockets, FIFOs, devices and names that are not UTF-8'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l symlinks -f -a 'inside follow keep skip' -r -d 'inside'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l on-conflict -f -a 'error first last' -r -d 'pack the first or the last pack\'s file if several packs contain its path'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l allow-missing -d 'pack the other packs if some cannot be opened'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l jobs -f -r -d 'reading threads'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l dedup -d 'store files with equal contents once'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l order -F -a 'path size' -r -d 'order of files in the pack'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l reproducible -d 'make packing deterministic'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l shards -f -r -d 'write N packs of about equal size'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l shard-size -f -r -d 'write packs of at most SIZE, as in 10G'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l append -d 'add packs to the pack set DST'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l tmp-dir -f -a '(__fish_complete_directories)' -r -d 'if DST is a URL: make the packs in DIR'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l dry-run -d 'print what would be packed, and write nothing'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l list -d 'with --dry-run: print the paths of the files, in the order of the pack'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -s q -l quiet -d 'print errors only'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l executor -f -r -d 'list SRC by processes[:N] of this machine, dask://HOST:PORT, ray'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in cluster/plan' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at cluster/plan 0 0 --include --exclude --files-from --symlinks --on-conflict --jobs --order --shards --shard-size --tmp-dir --executor --endpoint-url --region --remote-timeout' -F
complete -c ffrfs -n '__ffrfs_at cluster/plan 1 999 --include --exclude --files-from --symlinks --on-conflict --jobs --order --shards --shard-size --tmp-dir --executor --endpoint-url --region --remote-timeout' -F

complete -c ffrfs -n '__ffrfs_in cluster/run' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l task -f -r -d 'make the shards of task I of N, counted from 0'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l executor -f -r -d 'make all shards, and complete the set'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l on-error -f -a 'stop skip record' -r -d 'if a file changed, vanished or cannot be read'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l jobs -f -r -d 'reading threads of a task'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l tmp-dir -f -a '(__fish_complete_directories)' -r -d 'if DST is a URL: make the packs in DIR'
complete -c ffrfs -n '__ffrfs_in cluster/run' -s q -l quiet -d 'print errors only'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in cluster/run' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at cluster/run 0 0 --task --executor --on-error --jobs --tmp-dir --endpoint-url --region --remote-timeout' -F

complete -c ffrfs -n '__ffrfs_in cluster/commit' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in cluster/commit' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in cluster/commit' -l on-error -f -a 'stop skip record' -r -d 'if a file changed, vanished or cannot be read'
complete -c ffrfs -n '__ffrfs_in cluster/commit' -s q -l quiet -d 'print errors only'
complete -c ffrfs -n '__ffrfs_in cluster/commit' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in cluster/commit' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in cluster/commit' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in cluster/commit' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in cluster/commit' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at cluster/commit 0 0 --on-error --endpoint-url --region --remote-timeout' -F

complete -c ffrfs -n '__ffrfs_in cluster/status' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in cluster/status' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in cluster/status' -l json -d 'print JSON'
complete -c ffrfs -n '__ffrfs_in cluster/status' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in cluster/status' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in cluster/status' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in cluster/status' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in cluster/status' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at cluster/status 0 0 --endpoint-url --region --remote-timeout' -F

complete -c ffrfs -n '__ffrfs_without_command' -a mount -d 'mount packs or TFRecord files as a read-only directory tree'
complete -c ffrfs -n '__ffrfs_in mount' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in mount' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in mount' -s o -f -a '(__ffrfs_mount_options)' -r -d 'mount options, separated by commas'
complete -c ffrfs -n '__ffrfs_in mount' -l check -d 'check that the mount would succeed, without mounting'
complete -c ffrfs -n '__ffrfs_in mount' -s f -l foreground -d 'serve from this process'
complete -c ffrfs -n '__ffrfs_in mount' -l warm -d 'bring all files into memory before the command returns'
complete -c ffrfs -n '__ffrfs_in mount' -l config -F -r -d 'read settings that are not on the command line from FILE, see below'
complete -c ffrfs -n '__ffrfs_in mount' -l on-conflict -f -a 'error first last' -r -d 'show the first or the last pack\'s file if several contain its path'
complete -c ffrfs -n '__ffrfs_in mount' -l allow-missing -d 'show the other packs if some cannot be opened'
complete -c ffrfs -n '__ffrfs_in mount' -l cache-mb -f -r -d 'memory for all buffers together, in MiB'
complete -c ffrfs -n '__ffrfs_in mount' -l max-memory -f -r -d 'memory limit of all processes of the mount together, as in 512M or 2G'
complete -c ffrfs -n '__ffrfs_in mount' -l prefetch-window -f -r -d 'how far to read ahead of a reader, in records and bytes'
complete -c ffrfs -n '__ffrfs_in mount' -l read-around -f -a 'auto on off' -r -d 'if a program reads small files in no order'
complete -c ffrfs -n '__ffrfs_in mount' -l prefetch-ttl -f -r -d 'drop data read ahead if no reader asks for it within SECONDS'
complete -c ffrfs -n '__ffrfs_in mount' -l cache-dir -f -a '(__fish_complete_directories)' -r -d 'keep fetched blocks in DIR'
complete -c ffrfs -n '__ffrfs_in mount' -l cache-size -f -r -d 'limit of the cache directory, as in 500G'
complete -c ffrfs -n '__ffrfs_in mount' -l cache-mode -f -a 'full stream' -r -d 'full keeps fetched blocks'
complete -c ffrfs -n '__ffrfs_in mount' -l cache-shared -d 'use a cache directory to which a group may write'
complete -c ffrfs -n '__ffrfs_in mount' -l offline -d 'read from the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in mount' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in mount' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in mount' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in mount' -l remote-timeout -f -r -d 'fail a read whose bytes do not come within SECONDS'
complete -c ffrfs -n '__ffrfs_in mount' -l log-file -F -r -d 'log file of the daemon'
complete -c ffrfs -n '__ffrfs_in mount' -l metrics-file -F -r -d 'write metrics to FILE every 15 seconds'
complete -c ffrfs -n '__ffrfs_in mount' -l engine -f -a 'auto native pyfuse3' -r -d 'engine that serves the mount'
complete -c ffrfs -n '__ffrfs_in mount' -l transport -f -a 'auto dev uring' -r -d 'how the native engine gets the kernel\'s requests'
complete -c ffrfs -n '__ffrfs_in mount' -l threads -f -r -d 'threads of the native engine, 1 to 16'
complete -c ffrfs -n '__ffrfs_in mount' -l no-extensions -d 'show features of TFRecord files without extensions'
complete -c ffrfs -n '__ffrfs_in mount' -l while-open -f -r -d 'unmount when the other end of the inherited pipe FD is closed'
complete -c ffrfs -n '__ffrfs_at mount 0 999 -o --config --on-conflict --cache-mb --max-memory --prefetch-window --read-around --prefetch-ttl --cache-dir --cache-size --cache-mode --endpoint-url --region --remote-timeout --log-file --metrics-file --engine --transport --threads --while-open' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a umount -d 'unmount, even if the daemon has died'
complete -c ffrfs -n '__ffrfs_in umount' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in umount' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in umount' -l all -d 'unmount all mounts of this user, live and dead'
complete -c ffrfs -n '__ffrfs_in umount' -l dead -f -a '(__ffrfs_mounts)' -r -d 'unmount MOUNTPOINT only if its daemon has died'
complete -c ffrfs -n '__ffrfs_in umount' -l config -F -r -d 'unmount the mount of `ffrfs mount --config FILE`'
complete -c ffrfs -n '__ffrfs_at umount 0 0 --dead --config' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a run -d 'run a training program that tells the mount its order by itself'
complete -c ffrfs -n '__ffrfs_in run' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in run' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in run' -l ahead -f -r -d 'how many samples the hints are ahead of the program'
complete -c ffrfs -n '__ffrfs_at run 0 999 --ahead' -F

complete -c ffrfs -n '__ffrfs_without_command' -a prefetch -d 'announce to a mount which files will be read, in order'
complete -c ffrfs -n '__ffrfs_in prefetch' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in prefetch' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in prefetch' -l from -F -r -d 'read more paths from FILE, one per line'
complete -c ffrfs -n '__ffrfs_in prefetch' -s 0 -l null -d 'paths in FILE end with a zero byte, as find -print0 writes them'
complete -c ffrfs -n '__ffrfs_in prefetch' -l all -d 'fetch all of the packs into the cache on disk, in the background'
complete -c ffrfs -n '__ffrfs_at prefetch 0 0 --from' -a '(__ffrfs_mounts)'
complete -c ffrfs -n '__ffrfs_at prefetch 1 999 --from' -F

complete -c ffrfs -n '__ffrfs_without_command' -a warm -d 'bring the files of a mount into memory'
complete -c ffrfs -n '__ffrfs_in warm' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in warm' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in warm' -s q -l quiet -d 'show no progress'
complete -c ffrfs -n '__ffrfs_at warm 0 0' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a ls -d 'list the files of a pack'
complete -c ffrfs -n '__ffrfs_in ls' -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in ls' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in ls' -l on-conflict -f -a 'error first last' -r -d 'show the first or the last pack\'s file if several contain its path'
complete -c ffrfs -n '__ffrfs_in ls' -l allow-missing -d 'show the other packs if some cannot be opened'
complete -c ffrfs -n '__ffrfs_in ls' -s l -l long -d 'also show modes, sizes, times, and targets of links'
complete -c ffrfs -n '__ffrfs_in ls' -s h -l human-readable -d 'with -l: sizes as 1.2 GiB'
complete -c ffrfs -n '__ffrfs_in ls' -s R -l recursive -d 'list subdirectories, too'
complete -c ffrfs -n '__ffrfs_in ls' -l json -d 'print a JSON array'
complete -c ffrfs -n '__ffrfs_in ls' -s 0 -l null -d 'end each name with a zero byte, for xargs -0, instead of a line break'
complete -c ffrfs -n '__ffrfs_in ls' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in ls' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in ls' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in ls' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in ls' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at ls 0 0 --on-conflict --endpoint-url --region --remote-timeout' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a cat -d 'write files of a pack to standard output'
complete -c ffrfs -n '__ffrfs_in cat' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in cat' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in cat' -l on-conflict -f -a 'error first last' -r -d 'show the first or the last pack\'s file if several contain its path'
complete -c ffrfs -n '__ffrfs_in cat' -l allow-missing -d 'show the other packs if some cannot be opened'
complete -c ffrfs -n '__ffrfs_in cat' -l example -d 'show records of the TFRecord file PACK'
complete -c ffrfs -n '__ffrfs_in cat' -l json -d 'with --example: print a JSON array with an object per record'
complete -c ffrfs -n '__ffrfs_in cat' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in cat' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in cat' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in cat' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in cat' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at cat 0 0 --on-conflict --endpoint-url --region --remote-timeout' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a head -d 'show the first records of a TFRecord file'
complete -c ffrfs -n '__ffrfs_in head' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in head' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in head' -s n -f -r -d 'the number of records'
complete -c ffrfs -n '__ffrfs_in head' -l json -d 'print a JSON array with an object per record, which holds all values'
complete -c ffrfs -n '__ffrfs_in head' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in head' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in head' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in head' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in head' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at head 0 0 -n --endpoint-url --region --remote-timeout' -F

complete -c ffrfs -n '__ffrfs_without_command' -a extract -d 'write files of a pack to a directory'
complete -c ffrfs -n '__ffrfs_in extract' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in extract' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in extract' -l on-conflict -f -a 'error first last' -r -d 'show the first or the last pack\'s file if several contain its path'
complete -c ffrfs -n '__ffrfs_in extract' -l allow-missing -d 'show the other packs if some cannot be opened'
complete -c ffrfs -n '__ffrfs_in extract' -l skip-existing -d 'leave files that exist as they are'
complete -c ffrfs -n '__ffrfs_in extract' -l force -d 'replace files that exist'
complete -c ffrfs -n '__ffrfs_in extract' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in extract' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in extract' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in extract' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in extract' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at extract 0 0 --on-conflict --endpoint-url --region --remote-timeout' -a '(__ffrfs_packs)'
complete -c ffrfs -n '__ffrfs_at extract 1 1 --on-conflict --endpoint-url --region --remote-timeout' -a '(__fish_complete_directories)'

complete -c ffrfs -n '__ffrfs_without_command' -a info -d 'show numbers about packs'
complete -c ffrfs -n '__ffrfs_in info' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in info' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in info' -l json -d 'print a JSON object'
complete -c ffrfs -n '__ffrfs_in info' -l schema -d 'read TFRecord files and show their features'
complete -c ffrfs -n '__ffrfs_in info' -l limit -f -r -d 'with --schema: read the first N records'
complete -c ffrfs -n '__ffrfs_in info' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in info' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in info' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in info' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in info' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at info 0 999 --limit --endpoint-url --region --remote-timeout' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a view -d 'look at a data set in a browser'
complete -c ffrfs -n '__ffrfs_in view' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in view' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in view' -l second -f -a '(__ffrfs_packs)' -r -d 'compare the statistics with those of another data set'
complete -c ffrfs -n '__ffrfs_in view' -l schema -F -r -d 'check the statistics against a schema'
complete -c ffrfs -n '__ffrfs_in view' -l port -f -r -d 'listen at this port'
complete -c ffrfs -n '__ffrfs_in view' -l host -f -r -d 'listen at another address of this machine'
complete -c ffrfs -n '__ffrfs_in view' -l open -d 'open the link in the browser'
complete -c ffrfs -n '__ffrfs_in view' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in view' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in view' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in view' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in view' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at view 0 999 --second --schema --port --host --endpoint-url --region --remote-timeout' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a schema -d 'infer, check and show schemas and statistics of TFRecord data sets'
complete -c ffrfs -n '__ffrfs_in schema' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in schema' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in schema' -s o -l output -F -r -d 'write the result to FILE'
complete -c ffrfs -n '__ffrfs_in schema' -l force -d 'replace the file of --output'
complete -c ffrfs -n '__ffrfs_in schema' -l json -d 'print the result as JSON'
complete -c ffrfs -n '__ffrfs_in schema' -l schema -F -r -d 'validate: the schema'
complete -c ffrfs -n '__ffrfs_in schema' -l previous -F -r -d 'validate: earlier data, or its statistics'
complete -c ffrfs -n '__ffrfs_in schema' -l serving -F -r -d 'validate: data of serving, or its statistics, for the skew_comparator'
complete -c ffrfs -n '__ffrfs_in schema' -l environment -f -r -d 'validate: expect the features that the schema has in this environment'
complete -c ffrfs -n '__ffrfs_in schema' -l max-domain -f -r -d 'infer: strings with at most N different values have a domain'
complete -c ffrfs -n '__ffrfs_in schema' -l no-shape -d 'infer: features that always have the same number of values get a value_count, not a shape'
complete -c ffrfs -n '__ffrfs_in schema' -l jobs -f -r -d 'number of reading processes'
complete -c ffrfs -n '__ffrfs_in schema' -l on-error -f -a 'raise skip' -r -d 'how to treat a damaged record, or a record that is not an Example'
complete -c ffrfs -n '__ffrfs_in schema' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in schema' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in schema' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in schema' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in schema' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at schema 0 0 -o --output --schema --previous --serving --environment --max-domain --jobs --on-error --endpoint-url --region --remote-timeout' -a 'stats infer validate show'
complete -c ffrfs -n '__ffrfs_at schema 1 999 -o --output --schema --previous --serving --environment --max-domain --jobs --on-error --endpoint-url --region --remote-timeout' -F

complete -c ffrfs -n '__ffrfs_without_command' -a verify -d 'read packs whole and name damaged files'
complete -c ffrfs -n '__ffrfs_in verify' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in verify' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in verify' -l jobs -f -r -d 'number of verifying threads'
complete -c ffrfs -n '__ffrfs_in verify' -l executor -f -r -d 'verify the files by processes[:N] of this machine, dask://HOST:PORT'
complete -c ffrfs -n '__ffrfs_in verify' -l json -d 'print a JSON object'
complete -c ffrfs -n '__ffrfs_in verify' -s q -l quiet -d 'print only damaged files'
complete -c ffrfs -n '__ffrfs_in verify' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in verify' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in verify' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in verify' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in verify' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at verify 0 999 --jobs --executor --endpoint-url --region --remote-timeout' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a diff -d 'compare packs and directories'
complete -c ffrfs -n '__ffrfs_in diff' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in diff' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in diff' -s q -l quiet -d 'print nothing but errors'
complete -c ffrfs -n '__ffrfs_in diff' -l endpoint-url -f -r -d 'the server of s3://, gs:// or az://'
complete -c ffrfs -n '__ffrfs_in diff' -l region -f -r -d 'region of S3'
complete -c ffrfs -n '__ffrfs_in diff' -l anonymous -d 'use no credentials, for public buckets'
complete -c ffrfs -n '__ffrfs_in diff' -l offline -d 'read the cache alone, and ask no server'
complete -c ffrfs -n '__ffrfs_in diff' -l remote-timeout -f -r -d 'fail a read that got no answer within SECONDS'
complete -c ffrfs -n '__ffrfs_at diff 0 0 --endpoint-url --region --remote-timeout' -a '(__ffrfs_packs)'
complete -c ffrfs -n '__ffrfs_at diff 1 1 --endpoint-url --region --remote-timeout' -a '(__ffrfs_packs)'

complete -c ffrfs -n '__ffrfs_without_command' -a ps -d 'list the mounts of this user, live and dead'
complete -c ffrfs -n '__ffrfs_in ps' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in ps' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in ps' -s l -l long -d 'also show WORKER, TRANSPORT and LOG'
complete -c ffrfs -n '__ffrfs_in ps' -l json -d 'print a JSON array'

complete -c ffrfs -n '__ffrfs_without_command' -a stats -d 'show the statistics of a mount'
complete -c ffrfs -n '__ffrfs_in stats' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in stats' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in stats' -l errors -d 'list the files that could not be read, and why'
complete -c ffrfs -n '__ffrfs_in stats' -l coverage -d 'count the files read since the mark, or the mount'
complete -c ffrfs -n '__ffrfs_in stats' -l mark -d 'with --coverage: count anew from now on'
complete -c ffrfs -n '__ffrfs_in stats' -s v -l verbose -d 'also show rows that are zero, or 1,000 files never read'
complete -c ffrfs -n '__ffrfs_in stats' -l json -d 'print a JSON object'
complete -c ffrfs -n '__ffrfs_in stats' -l prometheus -d 'print the text format of Prometheus, as mount --metrics-file writes it'
complete -c ffrfs -n '__ffrfs_at stats 0 0' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a top -d 'watch mounts at work'
complete -c ffrfs -n '__ffrfs_in top' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in top' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in top' -l batch -d 'print the figures as plain lines, one set after the other'
complete -c ffrfs -n '__ffrfs_in top' -s n -l count -f -r -d 'print the figures COUNT times, as with --batch, and end'
complete -c ffrfs -n '__ffrfs_at top 0 0 -n --count' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a log -d 'show the log of a mount, also of one that has ended'
complete -c ffrfs -n '__ffrfs_in log' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in log' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in log' -s f -l follow -d 'go on with new lines as they come, until the mount has ended'
complete -c ffrfs -n '__ffrfs_at log 0 0' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a check -d 'check within a second whether mounts are well'
complete -c ffrfs -n '__ffrfs_in check' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in check' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in check' -l json -d 'print a JSON array'
complete -c ffrfs -n '__ffrfs_at check 0 999' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a restart -d 'let a new process serve a mount, under its readers'
complete -c ffrfs -n '__ffrfs_in restart' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in restart' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_at restart 0 0' -a '(__ffrfs_mounts)'

complete -c ffrfs -n '__ffrfs_without_command' -a cache -d 'manage the cache of packs at URLs'
complete -c ffrfs -n '__ffrfs_in cache' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in cache' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in cache' -l json -d 'print JSON'
complete -c ffrfs -n '__ffrfs_in cache' -l force -d 'rm: also remove pinned objects'
complete -c ffrfs -n '__ffrfs_in cache' -l size -f -r -d 'prune: also remove blocks, least recently read first'
complete -c ffrfs -n '__ffrfs_at cache 0 0 --size' -a 'ls du verify prune rm pin unpin'
complete -c ffrfs -n '__ffrfs_at cache 1 1 --size' -a '(__fish_complete_directories)'

complete -c ffrfs -n '__ffrfs_without_command' -a install-units -d 'install systemd units, helpers of mount(8), manual pages and completions'
complete -c ffrfs -n '__ffrfs_in install-units' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in install-units' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_in install-units' -l destdir -f -a '(__fish_complete_directories)' -r -d 'install below DIR instead of /, for a package or for review'
complete -c ffrfs -n '__ffrfs_in install-units' -l prefix -f -a '(__fish_complete_directories)' -r -d 'where to install everything but the helpers of mount(8)'
complete -c ffrfs -n '__ffrfs_in install-units' -l dry-run -d 'list what would be done, and change nothing'
complete -c ffrfs -n '__ffrfs_in install-units' -l force -d 'also replace or remove files that others changed'
complete -c ffrfs -n '__ffrfs_in install-units' -l uninstall -d 'remove the installed files, and nothing else'

complete -c ffrfs -n '__ffrfs_without_command' -a demo -d 'try it: make a small data set, pack it, mount it, read it'
complete -c ffrfs -n '__ffrfs_in demo' -s h -l help -d 'show this help message and exit'
complete -c ffrfs -n '__ffrfs_in demo' -l help-all -d 'show all options and exit'
complete -c ffrfs -n '__ffrfs_at demo 0 0' -a '(__fish_complete_directories)'
