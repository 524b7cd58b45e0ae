#!/usr/bin/env bash
# Builds a release into bin/release: archives, packages, an image, the chart, SBOMs and their
# checksums. `make release VERSION=…` calls it.
#
#   PLATFORMS   of the archives (default: five)
#   VERSION     of the release, with or without a v before it
set -eu -o pipefail
cd "$(dirname "$0")/.."

nfpm_version=v2.45.2
cyclonedx_version=v1.10.0
helm_version=v3.22.0

VERSION=${VERSION#v}
[[ "$VERSION" =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "VERSION=$VERSION: give a version such as 0.1.0 or 0.2.0-rc.1"; exit 2; }
export VERSION
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/arm64 freebsd/amd64 windows/amd64}
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# All times in archives are that of the commit: who builds it again gets the same bytes.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

out=$PWD/bin/release
stage=$PWD/bin/stage
tools=$PWD/bin/tools
rm -rf "$out" "$stage"
mkdir -p "$out" "$stage"/{man,completions} "$tools"

tool() { # name, package@version: builds it on first use, outside of this module
  local at="$tools/$1-${2##*@}"
  [ -x "$at" ] && return
  echo "building $2 (the first time: minutes)"
  (cd "$tools" && GOFLAGS= GOWORK=off GOBIN="$tools" CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' "$2") ||
    { echo "NOT RUN: $2 cannot be built"; exit 75; }
  mv "$tools/$1" "$at"
}
tool nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm@$nfpm_version
tool cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$cyclonedx_version
tool helm helm.sh/helm/v3/cmd/helm@$helm_version

binary() { # platform: where its program is
  local name=norn
  case $1 in windows/*) name=norn.exe ;; esac
  echo "$stage/${1/\//_}/$name"
}
tarball() { # file, directory, name in it: the same bytes for the same content
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -C "$2" -cf - "$3" | gzip -n9 >"$1"
}

echo "man pages and completions"
here=$stage/host/norn
CGO_ENABLED=0 GOOS= GOARCH= go build -trimpath -ldflags "-s -w -X main.version=$VERSION -X main.commit=$commit" -o "$here" ./cmd/norn
CGO_ENABLED=0 GOOS= GOARCH= go test -trimpath -count=1 -ldflags "-X github.com/norn-dev/norn/cmd/norn.version=$VERSION" -run '^TestManPages$' ./cmd/norn -man "$stage/man" >/dev/null
gzip -n9 "$stage"/man/*.1
"$here" completion bash >"$stage/completions/norn.bash"
"$here" completion zsh >"$stage/completions/_norn"
"$here" completion fish >"$stage/completions/norn.fish"
"$here" version --licenses >"$stage/licenses.txt"
# The unit of examples/server, with the place and the user of a package.
sed -e '/^# A node, as a systemd service/,/^#   cp norn.service/d' \
  -e 's,^ExecStart=/usr/local/bin/norn,ExecStart=/usr/bin/norn,' \
  -e 's,^DynamicUser=yes$,User=norn\nGroup=norn,' \
  -e 's,^Documentation=,Documentation=man:norn-server(1) ,' examples/server/norn.service >"$stage/norn.service"

for p in $platforms; do
  dir=norn_${VERSION}_${p/\//_}
  program=$(binary "$p")
  echo "$dir"
  mkdir -p "$(dirname "$program")" "$stage/$dir"
  if [ "$p" = "$(go env GOHOSTOS)/$(go env GOHOSTARCH)" ]; then
    cp "$here" "$program"
  else
    CGO_ENABLED=0 GOOS=${p%/*} GOARCH=${p#*/} go build -trimpath -ldflags "-s -w -X main.version=$VERSION -X main.commit=$commit" -o "$program" ./cmd/norn
  fi
  cp "$program" LICENSE NOTICE README.md CHANGELOG.md norn.example.yaml "$stage/licenses.txt" "$stage/$dir"
  cp -r "$stage/completions" "$stage/$dir/completions"
  cp -r "$stage/man" "$stage/$dir/man"
  tarball "$out/$dir.tar.gz" "$stage" "$dir"
  "$tools/cyclonedx-gomod-$cyclonedx_version" bin -json -noserial -notimestamp -std -version "$VERSION" -output "$out/$dir.sbom.json" "$program" 2>"$stage/sbom.log" || { cat "$stage/sbom.log"; exit 1; }
done

images=()
for p in $platforms; do
  case $p in linux/*) ;; *) continue ;; esac
  images+=("$p=$(binary "$p")")
  cp "$(binary "$p")" "$stage/norn"
  for format in deb rpm; do
    ARCH=${p#*/} "$tools/nfpm-$nfpm_version" package --config packaging/nfpm.yaml --packager $format --target "$out/" >"$stage/nfpm.log" 2>&1 || { cat "$stage/nfpm.log"; exit 1; }
  done
done
echo "image"
(cd packaging && go run ./image -version "$VERSION" -commit "$commit" -at "$SOURCE_DATE_EPOCH" -to "$out/norn_${VERSION}_oci.tar" "${images[@]}")

echo "chart"
"$tools/helm-$helm_version" package --version "$VERSION" --app-version "$VERSION" -d "$out" packaging/helm/norn >/dev/null
sed "s,norn:latest,norn:$VERSION," packaging/compose.yaml >"$out/compose.yaml"

# cosign sign-blob signs this one file; it names all others.
(cd "$out" && sha256sum -- * >"norn_${VERSION}_SHA256SUMS")
(cd "$out" && ls -l)
