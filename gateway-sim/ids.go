package gatewaysim

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

const (
	chargePrefix = "ch_"
	eventPrefix  = "evt_"
)

// An id holds the file's id and a sequence: so it needs no index, and a new file never repeats the ids of an old one.

func (s *store) newID(prefix string, seq uint64) string {
	var digits [16]byte
	hex.Encode(digits[:], binary.BigEndian.AppendUint64(nil, seq))
	return prefix + s.fileID + string(digits[:])
}

// parseID returns the sequence in an id of this file.
func (s *store) parseID(prefix, id string) (seq uint64, ok bool) {
	digits, ok := strings.CutPrefix(id, prefix+s.fileID)
	if !ok {
		return 0, false
	}
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) != 8 || s.newID(prefix, binary.BigEndian.Uint64(b)) != id {
		return 0, false
	}
	return binary.BigEndian.Uint64(b), true
}
