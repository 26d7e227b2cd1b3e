package server

import (
	"fmt"
	"strconv"
	"time"
)

// deadlines bounds how long a request may take, over both faces alike.
type deadlines struct {
	def time.Duration // without a wish of the caller
	max time.Duration // whatever the caller wishes
}

// at returns when a request that came at now must be answered; asked is what its caller wants, zero for no wish.
func (d deadlines) at(now, asked time.Time) time.Time {
	if asked.IsZero() {
		return now.Add(d.def)
	}
	if latest := now.Add(d.max); asked.After(latest) {
		return latest
	}
	return asked
}

// timeoutUnits are those of gRPC over HTTP/2 (PROTOCOL-HTTP2.md, "Timeout").
var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// parseTimeout reads the values of a Grpc-Timeout header: at most 8 digits and a unit. No value gives ok == false.
func parseTimeout(values []string) (d time.Duration, ok bool, err error) {
	switch len(values) {
	case 0:
		return 0, false, nil
	case 1:
	default:
		return 0, false, badTimeout(fmt.Sprintf("was sent %d times; send one", len(values)))
	}
	const form = "must be 1 to 8 digits and a unit (H, M, S, m, u or n), such as 1500m"
	s := values[0]
	if len(s) < 2 || len(s) > 9 {
		return 0, false, badTimeout(form)
	}
	unit, known := timeoutUnits[s[len(s)-1]]
	n, convErr := strconv.ParseUint(s[:len(s)-1], 10, 32) // 8 digits fit, and no sign is taken
	if !known || convErr != nil {
		return 0, false, badTimeout(form)
	}
	const day = 24 * time.Hour // longer than any maximum, and small enough for a time.Duration
	if time.Duration(n) > day/unit {
		return day, true, nil
	}
	return time.Duration(n) * unit, true, nil
}

func badTimeout(what string) *problem {
	return invalid("The Grpc-Timeout header "+what+".", violation{"Grpc-Timeout", what})
}
