#!/bin/sh
# Build the image of deploy/Dockerfile with Debian's own tools: no engine, no registry of images.
#   apt-get install buildah debootstrap; deploy/container.sh FOLDER
# As root; some 4 GB in FOLDER, where buildah's store lies afterwards. DEBIAN_MIRROR and PIP_INDEX_URL name a house's own
# sources of packages. Then, to run a command in it as user das:
#   alias buildah="buildah --root FOLDER/store --runroot FOLDER/run --storage-driver vfs"
#   buildah from --name das das-flows && buildah run --isolation chroot das -- das demo /tmp/demo
set -eu
folder=$1
tree=$(dirname "$(dirname "$(realpath "$0")")")
certificates=/etc/ssl/certs/ca-certificates.crt  # this host's, for pip: it may know an authority of the house's own
alias buildah='buildah --root "$folder/store" --runroot "$folder/run" --storage-driver vfs'
mkdir -p "$folder"
if [ ! -e "$folder/base/.whole" ]; then
    rm -rf "$folder/base"
    debootstrap --variant=minbase --include=python3.11-venv,python3-distutils,ca-certificates bookworm "$folder/base" ${DEBIAN_MIRROR:-}
    rm -rf "$folder"/base/var/cache/apt/* "$folder"/base/var/lib/apt/lists/*
    touch "$folder/base/.whole"
fi
base=$(buildah from scratch)
buildah copy --quiet "$base" "$folder/base" /
buildah commit --quiet --rm "$base" das-base
buildah bud --isolation chroot --layers=false --ignorefile "$tree/deploy/Dockerfile.dockerignore" \
    --build-arg BASE=localhost/das-base --build-arg PIP_CERT="$certificates" --build-arg PIP_INDEX_URL \
    --volume "$certificates:$certificates:ro" --file "$tree/deploy/Dockerfile" --tag das-flows "$tree"
