package job

import (
	"runtime"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/norn-dev/norn/backup"
)

// packer and unpacker pack and unpack parts, one per core at a time, and have their tables once for all backups.
var (
	packer   = sync.OnceValue(func() *zstd.Encoder { return backup.NewPacker(runtime.GOMAXPROCS(0)) })
	unpacker = sync.OnceValue(func() *zstd.Decoder { return backup.NewUnpacker(runtime.GOMAXPROCS(0)) })
)
