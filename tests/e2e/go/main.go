// A small worker on go-redis, as Go programs speak the protocol: EVALSHA first and EVAL where the server does not know
// the script (redis.NewScript does that), a pool of connections, a token for each job, and a goroutine that renews it.
//
// argv[1] is the configuration below. stdout: one JSON object a line. stdin: {"do": "let", "job": id} frees a held job,
// {"do": "renew", "job": id} renews now, {"do": "close"} ends. The scripts' texts are read from the folder `commands`.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

type config struct {
	Port     int    `json:"port"`
	Password string `json:"password"`
	Prefix   string `json:"prefix"`
	Queue    string `json:"queue"`
	Commands string `json:"commands"`
	Options  struct {
		LockMs      int64 `json:"lockDuration"`
		RenewMs     int64 `json:"lockRenewTime"` // 0: never by itself
		StalledMs   int64 `json:"stalledInterval"`
		Concurrency int   `json:"concurrency"`
	} `json:"options"`
}

type worker struct {
	config
	keys    string // what every key of the queue begins with
	client  *redis.Client
	scripts map[string]*redis.Script
	running sync.WaitGroup
	mutex   sync.Mutex
	gates   map[string]chan struct{}
	renews  map[string]chan struct{}
}

var output sync.Mutex

func say(event string, fields map[string]any) {
	line := map[string]any{"event": event}
	for name, value := range fields {
		line[name] = value
	}
	text, _ := json.Marshal(line)
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(text))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (w *worker) load(names ...string) {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(w.Commands, name+".lua"))
		must(err)
		w.scripts[name] = redis.NewScript(string(text))
	}
}

func (w *worker) named(names ...string) []string {
	for i, name := range names {
		names[i] = w.keys + name
	}
	return names
}

// A map as msgpack, of strings and numbers: all that the scripts ask for.
func packed(pairs ...any) string {
	out := []byte{0x80 | byte(len(pairs)/2)}
	text := func(value string) { out = append(append(out, 0xd9, byte(len(value))), value...) }
	for _, value := range pairs {
		switch value := value.(type) {
		case string:
			text(value)
		case int64:
			out = append(out, 0xd3)
			for shift := 56; shift >= 0; shift -= 8 {
				out = append(out, byte(value>>shift))
			}
		case map[string]int8:
			out = append(out, 0x80|byte(len(value)))
			for name, number := range value {
				text(name)
				out = append(out, 0xd0, byte(number))
			}
		}
	}
	return string(out)
}

func uuid() string {
	var b [16]byte
	_, err := rand.Read(b[:])
	must(err)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Asks for a job under a new token; an empty id where there is none.
func (w *worker) acquire(ctx context.Context) (id, token, name string) {
	token = uuid()
	keys := w.named("wait", "active", "prioritized", "events", "stalled", "limiter", "delayed", "paused", "meta", "pc",
		"marker")
	options := packed("token", token, "lockDuration", w.Options.LockMs)
	reply, err := w.scripts["moveToActive-11"].Run(ctx, w.client, keys, w.keys, time.Now().UnixMilli(), options).Slice()
	must(err)
	fields, found := reply[0].([]any)
	if !found {
		return "", "", ""
	}
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == "name" {
			name = fields[i+1].(string)
		}
	}
	return reply[1].(string), token, name
}

func (w *worker) renew(ctx context.Context, id, token string) {
	keys := w.named(id+":lock", "stalled")
	code, err := w.scripts["extendLock-2"].Run(ctx, w.client, keys, token, w.Options.LockMs, id).Int()
	must(err)
	say(map[int]string{1: "renewed", 0: "renewal_refused"}[code], map[string]any{"job": id})
}

func (w *worker) finish(ctx context.Context, id, token, target string) {
	keys := w.named("wait", "active", "prioritized", "events", "stalled", "limiter", "delayed", "paused", "meta", "pc",
		target, id, "metrics:"+target, "marker")
	property := map[string]string{"completed": "returnvalue", "failed": "failedReason"}[target]
	options := packed("token", token, "lockDuration", w.Options.LockMs, "keepJobs", map[string]int8{"count": -1},
		"attempts", int64(1), "maxMetricsSize", "")
	code, err := w.scripts["moveToFinished-14"].Run(ctx, w.client, keys,
		id, time.Now().UnixMilli(), property, "null", target, 0, w.keys, options, "").Int()
	must(err)
	if code == 0 {
		say(target, map[string]any{"job": id})
	} else {
		say("refused", map[string]any{"job": id, "code": code})
	}
}

func (w *worker) sweep(ctx context.Context) {
	keys := w.named("stalled", "wait", "active", "stalled-check", "meta", "paused", "marker", "events", "repeat")
	must(w.scripts["moveStalledJobsToWait-9"].Run(ctx, w.client, keys,
		1, w.keys, time.Now().UnixMilli(), w.Options.StalledMs).Err())
}

func channel(of map[string]chan struct{}, id string) chan struct{} {
	if of[id] == nil {
		of[id] = make(chan struct{}, 1)
	}
	return of[id]
}

// From the grant to the finish: a job named `hold` waits until it is let go, `fail` fails.
func (w *worker) process(ctx context.Context, id, token, name string) {
	defer w.running.Done()
	w.mutex.Lock()
	gate, now := channel(w.gates, id), channel(w.renews, id)
	w.mutex.Unlock()
	say("active", map[string]any{"job": id, "token": token, "name": name})
	var beat <-chan time.Time
	if w.Options.RenewMs > 0 {
		ticker := time.NewTicker(time.Duration(w.Options.RenewMs) * time.Millisecond)
		defer ticker.Stop()
		beat = ticker.C
	}
	for name == "hold" {
		select {
		case <-gate:
			name = "complete"
		case <-now:
			w.renew(ctx, id, token)
		case <-beat:
			w.renew(ctx, id, token)
		}
	}
	w.finish(ctx, id, token, map[bool]string{true: "failed", false: "completed"}[name == "fail"])
}

func (w *worker) listen(closed context.CancelFunc) {
	defer closed()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var command struct{ Do, Job string }
		must(json.Unmarshal(lines.Bytes(), &command))
		if command.Do == "close" {
			return
		}
		w.mutex.Lock()
		channel(map[string]map[string]chan struct{}{"let": w.gates, "renew": w.renews}[command.Do], command.Job) <- struct{}{}
		w.mutex.Unlock()
	}
}

func main() {
	w := worker{scripts: map[string]*redis.Script{}, gates: map[string]chan struct{}{}, renews: map[string]chan struct{}{}}
	must(json.Unmarshal([]byte(os.Args[1]), &w.config))
	w.keys = w.Prefix + ":" + w.Queue + ":"
	w.load("moveToActive-11", "moveToFinished-14", "moveStalledJobsToWait-9", "extendLock-2")
	w.client = redis.NewClient(&redis.Options{
		Addr: fmt.Sprintf("127.0.0.1:%d", w.Port), Password: w.Password, PoolSize: 8, ClientName: "go-worker", MaxRetries: -1,
	})
	ctx := context.Background()
	until, closed := context.WithCancel(ctx)
	go w.listen(closed)
	must(w.client.Ping(ctx).Err())
	say("ready", map[string]any{"driver": redis.Version()})
	slots := make(chan struct{}, max(1, w.Options.Concurrency))
	swept := time.Now()
	for until.Err() == nil {
		if w.Options.StalledMs > 0 && time.Since(swept) > time.Duration(w.Options.StalledMs)*time.Millisecond {
			swept = time.Now()
			w.sweep(ctx)
		}
		slots <- struct{}{}
		id, token, name := w.acquire(ctx)
		if id == "" {
			<-slots
			if err := w.client.BZPopMin(ctx, time.Second, w.keys+"marker").Err(); err != redis.Nil {
				must(err)
			}
			continue
		}
		w.running.Add(1)
		go func() {
			w.process(ctx, id, token, name)
			<-slots
		}()
	}
	w.running.Wait()
	must(w.client.Close())
	say("closed", nil)
}
