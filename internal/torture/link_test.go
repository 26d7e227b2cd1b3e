package torture

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// patience bounds every wait for the network.
const patience = 10 * time.Second

// echo answers every byte with itself.
func echo(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var ends sync.WaitGroup
	t.Cleanup(func() { // after the connections' own
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		ends.Wait()
	})
	ends.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			ends.Go(func() {
				_, copyErr := io.Copy(conn, conn)
				if err := errors.Join(copyErr, conn.Close()); err != nil {
					t.Logf("echo: %v", err) // a reset, where one is made
				}
			})
		}
	})
	return ln.Addr().String()
}

func linkTo(t *testing.T, to ...string) *link {
	t.Helper()
	l, err := newLink(to...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func dial(t *testing.T, l *link) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", l.addr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// said writes the text and reads as much back.
func said(conn net.Conn, text string) (string, error) {
	if _, err := conn.Write([]byte(text)); err != nil {
		return "", err
	}
	buf := make([]byte, len(text))
	n, err := io.ReadFull(conn, buf)
	return string(buf[:n]), err
}

// sayAnew is said on a connection of its own, which may be reset as early as while it is made.
func sayAnew(l *link, text string) (got string, err error) {
	conn, err := net.DialTimeout("tcp", l.addr(), patience)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	return said(conn, text)
}

func TestLinkCarriesBothWaysInFairWeather(t *testing.T) {
	t.Parallel()
	got, err := sayAnew(linkTo(t, echo(t)), "hello")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("hello", got); diff != "" {
		t.Error(diff)
	}
}

func TestLinkThatRefusesCutsWhatIsThereAndWhatComes(t *testing.T) {
	t.Parallel()
	l := linkTo(t, echo(t))
	before := dial(t, l)
	if _, err := said(before, "x"); err != nil {
		t.Fatal(err)
	}
	l.set(weather{refuse: true})
	if got, err := said(before, "x"); err == nil || isTimeout(err) {
		t.Errorf("an old connection: %q, %v; want it cut", got, err)
	}
	if got, err := sayAnew(l, "x"); err == nil || isTimeout(err) {
		t.Errorf("a new connection: %q, %v; want it cut", got, err)
	}
	l.set(weather{})
	if got, err := sayAnew(l, "y"); got != "y" || err != nil {
		t.Errorf("after the cut: %q, %v", got, err)
	}
}

func TestLinkThatLosesAnswersIsSilentAndThenResets(t *testing.T) {
	t.Parallel()
	l := linkTo(t, echo(t))
	conn := dial(t, l)
	if _, err := said(conn, "x"); err != nil {
		t.Fatal(err)
	}
	l.set(weather{loseDown: true})
	if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if got, err := said(conn, "x"); !isTimeout(err) {
		t.Errorf("%q, %v; want silence", got, err)
	}
	l.set(weather{})
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || isTimeout(err) {
		t.Errorf("%d bytes, %v; want the connection reset, for bytes of it are missing", n, err)
	}
}

func TestLinkDeliversWhatWasSentBeforeTheSenderLeft(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := linkTo(t, ln.Addr().String())
	l.set(weather{delay: 200 * time.Millisecond})
	conn, err := net.DialTimeout("tcp", l.addr(), patience)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Write([]byte("late"))
	if err = errors.Join(err, conn.Close()); err != nil {
		t.Fatal(err)
	}
	up, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(up)
	if err = errors.Join(err, up.Close(), ln.Close()); err != nil || string(got) != "late" {
		t.Errorf("%q, %v; want what was sent, though its sender has left", got, err)
	}
}

func TestLinkTakesItsUpstreamsInTurn(t *testing.T) {
	t.Parallel()
	l := linkTo(t, echo(t), "127.0.0.1:1") // nobody listens on port 1
	worked := 0
	for range 4 {
		if _, err := sayAnew(l, "x"); err == nil {
			worked++
		}
	}
	if worked != 2 {
		t.Errorf("%d of 4 connections got to the first upstream, want 2", worked)
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

func TestScheduleIsTheSeedsAndDealsEveryKind(t *testing.T) {
	t.Parallel()
	kinds := []string{"a", "b", "c", "d"}
	compare := cmp.AllowUnexported(card{})
	first := schedule(7, kinds, time.Minute)
	if diff := cmp.Diff(first, schedule(7, kinds, time.Minute), compare); diff != "" {
		t.Errorf("the same seed has two schedules:\n%s", diff)
	}
	if cmp.Equal(first, schedule(8, kinds, time.Minute), compare) {
		t.Error("another seed has the same schedule")
	}
	dealt := map[string]int{}
	for _, c := range first {
		dealt[c.kind]++
		if c.at < 0 || c.at >= time.Minute {
			t.Errorf("a card at %s", c.at)
		}
	}
	for _, kind := range kinds {
		if dealt[kind] < 2 {
			t.Errorf("%s is dealt %d times in a minute", kind, dealt[kind])
		}
	}
}
