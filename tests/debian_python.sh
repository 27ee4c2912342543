#!/bin/sh
# Run the tests on the Python of another Debian suite, by debootstrap into a folder from the mirror that apt is configured with:
#   tests/debian_python.sh trixie build/trixie                                    # make test-python on its Python, 3.13
#   tests/debian_python.sh forky build/forky make setup VENV=build/python3.14     # any other command, in this checkout
# As root on Debian with debootstrap; elsewhere it says what is missing and succeeds. 0.4 GB in the folder, kept for the next time.
set -eu
suite=$1 folder=$(realpath -m "$2") tree=$(dirname "$(dirname "$(realpath "$0")")")
shift 2
certificates=/etc/ssl/certs/ca-certificates.crt # this host's: it may know an authority of the house's own

skip() { echo "skipped: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "only root may use debootstrap and chroot"
for tool in debootstrap unshare apt-get; do
    command -v $tool >/dev/null || skip "no $tool (apt-get install debootstrap util-linux)"
done
if [ ! -e "$folder/.whole" ]; then
    mirror=$(apt-get indextargets --format '$(CREATED_BY) $(REPO_URI) $(ORIGIN)' | awk '$1 == "Packages" && $3 == "Debian" {print $2; exit}')
    [ -n "$mirror" ] || skip "apt knows no mirror of Debian: apt-get update"
    script=/usr/share/debootstrap/scripts/$suite
    [ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid # a suite that is newer than debootstrap
    rm -rf "$folder"
    debootstrap --variant=minbase --include=python3,python3-venv,make,git,ca-certificates "$suite" "$folder" "$mirror" "$script"
    touch "$folder/.whole"
fi
cp /etc/resolv.conf "$folder/etc/resolv.conf"
mkdir -p "$folder$tree"
[ $# -gt 0 ] || set -- make test-python
# The mounts are of a namespace of their own and end with the command.
exec unshare --mount sh -eu -c '
    folder=$1 tree=$2 certificates=$3; shift 3
    for place in "$tree" /proc /dev /sys ${DAS_DATA:-}; do mkdir -p "$folder$place"; mount --rbind "$place" "$folder$place"; done
    [ ! -e "$certificates" ] || mount --bind "$certificates" "$folder$certificates"
    unset BASH_ENV VIRTUAL_ENV PYTHONHOME PYTHONPATH
    export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    exec chroot "$folder" sh -c "cd \"\$0\" && exec \"\$@\"" "$tree" "$@"
' sh "$folder" "$tree" "$certificates" "$@"
