package membership

import (
	"cmp"
	"math"
	"slices"
)

// perPacket is how much news a packet carries at most.
const perPacket = 6

// gossip is the news that a node still passes on. Each piece travels on about 3·ln n packets, which is enough for all to hear it
// with high probability; what was sent least goes first.
type gossip struct {
	limit int
	items []rumour
}

type rumour struct {
	news news
	sent int
}

func newGossip(nodes int) gossip {
	return gossip{limit: int(math.Ceil(3 * math.Log(float64(nodes))))}
}

// tell queues news, in the place of older news about the same node.
func (g *gossip) tell(u news) {
	g.items = slices.DeleteFunc(g.items, func(r rumour) bool { return r.news.About == u.About })
	g.items = append(g.items, rumour{news: u})
}

// take returns what goes along with the next packet.
func (g *gossip) take() []news {
	slices.SortStableFunc(g.items, func(a, b rumour) int { return cmp.Compare(a.sent, b.sent) })
	var out []news
	for i := range min(perPacket, len(g.items)) {
		g.items[i].sent++
		out = append(out, g.items[i].news)
	}
	g.items = slices.DeleteFunc(g.items, func(r rumour) bool { return r.sent >= g.limit })
	return out
}
