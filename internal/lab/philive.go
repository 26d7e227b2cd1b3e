package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"chargeonce/internal/lab/phi"
)

// live lets a detector listen to heartbeats that are really sent, over UDP on the loopback interface, until their sender falls
// silent. How regular they arrive is up to this machine just now, and so is how long the detector waits.
func (n phiNumbers) live(ctx context.Context, r *Report) (err error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()

	var sendErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		sendErr = n.sendBeats(ctx, conn.LocalAddr().String())
	}()

	cfg := phi.AkkaCluster()
	cfg.Threshold, cfg.Interval, cfg.MinStdDev, cfg.Pause = n.Low, n.LiveEvery, n.LiveEvery/10, 0
	d := phi.New(cfg)
	heard, err := n.hear(ctx, conn, done, d)
	<-done
	if err = errors.Join(err, sendErr); err != nil {
		return err
	}
	mean, stdDev := d.Model()
	t := Table{Title: fmt.Sprintf("Live, over UDP: a heartbeat every %s, then silence", n.LiveEvery),
		Columns: []string{"heartbeats heard", "false suspicions", "learnt", "suspected after", "fixed time-out of 3 intervals"}}
	t.add(fmt.Sprint(heard.beats), fmt.Sprint(heard.wrong), fmt.Sprintf("%s ± %s", ms(mean), ms(stdDev)), ms(heard.detection),
		ms(3*n.LiveEvery))
	r.Tables = append(r.Tables, t)
	r.equal("live: heartbeats heard", int64(n.LiveBeats), int64(heard.beats))
	smaller(r, "live: it waits longer than heartbeats are apart on average", mean, heard.detection)
	return nil
}

// sendBeats sends the heartbeats, one after another.
func (n phiNumbers) sendBeats(ctx context.Context, to string) (err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	tick := time.NewTicker(n.LiveEvery)
	defer tick.Stop()
	for range n.LiveBeats {
		if _, err := conn.Write([]byte("alive")); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hear listens until the sender is done and suspected. A suspicion that a later heartbeat refutes was a false one.
func (n phiNumbers) hear(ctx context.Context, conn *net.UDPConn, done <-chan struct{}, d *phi.Detector) (watched, error) {
	var out watched
	last := time.Now()
	suspected := false
	buf := make([]byte, 16)
	for ctx.Err() == nil {
		deadline := last.Add(d.Patience())
		if suspected {
			deadline = time.Now().Add(n.LiveEvery)
		}
		if err := conn.SetReadDeadline(deadline); err != nil {
			return out, err
		}
		finished := isClosed(done) // before the read: what was sent by then is there to be read
		_, err := conn.Read(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && suspected && finished:
			return out, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			if !suspected {
				out.detection, suspected = time.Since(last), true
			}
			continue
		case err != nil:
			return out, err
		}
		if suspected {
			out.wrong, suspected = out.wrong+1, false
		}
		last = time.Now()
		d.Heartbeat(last)
		out.beats++
	}
	return out, ctx.Err()
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
