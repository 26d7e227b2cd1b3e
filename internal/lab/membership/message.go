package membership

import (
	"encoding/json"
	"fmt"
)

// kind is what a packet is for.
type kind string

const (
	heartbeat kind = "heartbeat"
	// ping asks for an ack with the same sequence number.
	ping kind = "ping"
	// pingReq asks its receiver to ping the target, and to pass the ack on.
	pingReq kind = "ping-req"
	ack     kind = "ack"
)

// message is one packet: JSON, for being read; a real protocol would be terser.
type message struct {
	Kind   kind   `json:"kind"`
	From   int    `json:"from"`
	Seq    uint64 `json:"seq,omitempty"`
	Target int    `json:"target,omitempty"` // of a ping-req
	News   []news `json:"news,omitempty"`   // piggybacked
}

// decode reads a packet that came to a cluster of n nodes.
func decode(packet []byte, n int) (message, error) {
	var m message
	if err := json.Unmarshal(packet, &m); err != nil {
		return m, fmt.Errorf("a packet: %w", err)
	}
	known := func(node int) bool { return node >= 0 && node < n }
	ok := known(m.From) && known(m.Target)
	for _, u := range m.News {
		ok = ok && known(u.About)
	}
	if !ok {
		return m, fmt.Errorf("a packet of a node that is none of the %d: %s", n, packet)
	}
	return m, nil
}
