package dev.octet.trainer.launch;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.launch.Connection.Frame;
import dev.octet.trainer.launch.Connection.Kind;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Where the first relay hears the others: all of them call, itself included, and so do agents, whose commands it passes on to the relay that they ask for. It alone listens; a
 * relay runs only what comes over the connection that it made.
 */
final class Switchboard implements AutoCloseable {
    private static final int WAITING = 128;

    /** How long relays may take to hear that all is over. */
    private static final Duration FAREWELL = Duration.ofSeconds(2);

    private final ServerSocket door;
    private final RelayPlace place;
    private final Consumer<String> said;
    private final Map<Integer, Seat> seats = new TreeMap<>();
    private final Set<Connection> open = ConcurrentHashMap.newKeySet();
    private @Nullable Seat lost;
    private boolean over;

    /** A relay that has come. */
    private static final class Seat {
        private final int number;
        private final int slots;
        private final String host;
        private final Connection relay;
        private @Nullable Connection agent;

        Seat(int number, int slots, String host, Connection relay) {
            this.number = number;
            this.slots = slots;
            this.host = host;
            this.relay = relay;
        }

        synchronized boolean take(Connection who) {
            boolean free = agent == null;
            if (free) {
                agent = who;
            }
            return free;
        }

        synchronized void leave() {
            agent = null;
        }

        /** Lets who asked the relay know that nothing more comes. */
        synchronized void hangUp() {
            if (agent != null) {
                agent.close();
            }
        }

        /** What the relay says to who asked it. */
        synchronized void answer(Frame frame) throws IOException {
            if (agent != null) {
                agent.send(frame);
            }
        }
    }

    private Switchboard(ServerSocket door, RelayPlace place, Consumer<String> said) {
        this.door = door;
        this.place = place;
        this.said = said;
    }

    /**
     * Listens.
     *
     * @param said hears, line by line, what a user should know
     * @throws UnavailableException when it cannot listen there
     */
    static Switchboard open(InetSocketAddress address, RelayPlace place, Consumer<String> said) {
        try {
            ServerSocket door = new ServerSocket();
            door.setReuseAddress(true);
            try {
                door.bind(address, WAITING);
            } catch (IOException e) {
                door.close();
                throw e;
            }
            return new Switchboard(door, place, said);
        } catch (IOException e) {
            throw new UnavailableException(
                    "the first relay cannot listen for the others: " + e.getMessage(),
                    address.toString(),
                    "choose another port with " + TorchrunRendezvous.PORT + ", on each machine the same",
                    e);
        }
    }

    int port() {
        return door.getLocalPort();
    }

    /** From now on callers are answered. */
    void begin(Invitation invitation) {
        Thread.ofPlatform().daemon().name("octet-relays").start(() -> {
            while (!door.isClosed()) {
                try {
                    Socket socket = door.accept();
                    Thread.ofVirtual().start(() -> greet(socket, invitation));
                } catch (IOException e) {
                    if (!door.isClosed()) {
                        said.accept("a relay's call was lost: " + e.getMessage());
                    }
                }
            }
        });
    }

    private void greet(Socket socket, Invitation invitation) {
        try (Connection guest = Connection.answer(socket, invitation)) {
            open.add(guest);
            Frame hello = guest.receive();
            String[] words = hello.text().split("\n", -1);
            if (hello.kind() == Kind.HELLO && words.length == 4 && words[0].equals("relay")) {
                serve(new Seat(Integer.parseInt(words[1]), Integer.parseInt(words[2]), words[3], guest));
            } else if (hello.kind() == Kind.HELLO && words.length == 2 && words[0].equals("agent")) {
                serve(Integer.parseInt(words[1]), guest);
            }
            open.remove(guest);
        } catch (Connection.WrongSecretException e) {
            said.accept("refused: " + e.getMessage());
        } catch (IOException | NumberFormatException e) {
            System.getLogger(Switchboard.class.getName())
                    .log(System.Logger.Level.DEBUG, "a caller that was none, or is gone", e);
        }
    }

    private void serve(Seat seat) throws IOException {
        synchronized (this) {
            if (seat.number < 0 || seat.number >= place.relays() || seats.containsKey(seat.number)) {
                seat.relay.send(
                        Kind.REFUSED, "a relay with the number " + seat.number + " is here already, or not wanted");
                return;
            }
            seats.put(seat.number, seat);
            notifyAll();
        }
        try {
            while (true) {
                Frame frame = seat.relay.receive();
                try {
                    seat.answer(frame);
                } catch (IOException e) {
                    seat.leave(); // the agent is gone; the relay is told by who listens to the agent
                }
            }
        } catch (IOException e) {
            synchronized (this) {
                if (!over && lost == null) {
                    lost = seat;
                    notifyAll();
                }
            }
            seat.hangUp();
        }
    }

    private void serve(int number, Connection agent) throws IOException {
        Seat seat;
        synchronized (this) {
            seat = seats.get(number);
        }
        if (seat == null || !seat.take(agent)) {
            agent.send(Kind.REFUSED, "relay " + number + (seat == null ? " is not here" : " runs another command"));
            return;
        }
        try {
            Frame command = agent.receive();
            if (command.kind() == Kind.RUN) {
                seat.relay.send(command);
                while (true) {
                    Frame _ = agent.receive(); // until it goes
                }
            }
        } finally {
            try {
                seat.relay.send(Kind.STOP, "");
            } finally {
                seat.leave();
            }
        }
    }

    /**
     * Waits for all relays.
     *
     * @return ranks of each
     * @throws UnavailableException naming those that do not come in time, or what does not fit
     */
    synchronized List<Integer> await(Duration patience) throws InterruptedException {
        long deadline = System.nanoTime() + patience.toNanos();
        while (seats.size() < place.relays()) {
            long left = TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime());
            if (left <= 0) {
                String missing = IntStream.range(0, place.relays())
                        .filter(i -> !seats.containsKey(i))
                        .mapToObj(String::valueOf)
                        .collect(Collectors.joining(", "));
                throw new UnavailableException(
                        "relays that did not come within " + patience.toSeconds() + " s: " + missing + " of "
                                + place.relays() + ", counted from 0",
                        "machines or executors with these numbers (torchrun: GROUP_RANK); here at "
                                + door.getLocalSocketAddress(),
                        "see what they print; their machines must reach this address, and " + PlacedRanks.DEADLINE
                                + " is how many seconds to wait");
            }
            wait(left);
        }
        List<Integer> slots = seats.values().stream().map(s -> s.slots).toList();
        int ranks = slots.stream().mapToInt(i -> i).sum();
        if (ranks != place.ranks()) {
            throw new UnavailableException(
                    "the relays have " + ranks + " ranks together, and " + place.ranks() + " are wanted",
                    "ranks of each relay: " + slots,
                    "start as many processes as WORLD_SIZE says");
        }
        return slots;
    }

    /** Who is called how for mpirun, and has which ranks. */
    synchronized String names() {
        StringJoiner names = new StringJoiner(", ");
        seats.values().forEach(s -> names.add(Agent.HOST + s.number + " is " + text(s)));
        return names.toString();
    }

    private String text(Seat seat) {
        int first = seats.values().stream()
                .filter(s -> s.number < seat.number)
                .mapToInt(s -> s.slots)
                .sum();
        int last = first + seat.slots - 1;
        return seat.host + " with rank" + (seat.slots == 1 ? " " + first : "s " + first + " to " + last);
    }

    /** The first relay that is gone, in words; empty while all are here. */
    synchronized Optional<String> lost() {
        return Optional.ofNullable(lost).map(s -> "relay " + s.number + " (" + text(s) + ")");
    }

    /** Tells all relays that it is over. */
    void end(int code) {
        List<Seat> all;
        synchronized (this) {
            over = true;
            all = new ArrayList<>(seats.values());
        }
        for (Seat seat : all) {
            try {
                seat.relay.send(Kind.DONE, String.valueOf(code));
            } catch (IOException e) {
                System.getLogger(Switchboard.class.getName()).log(System.Logger.Level.DEBUG, "it is gone already", e);
            }
        }
        long deadline = System.nanoTime() + FAREWELL.toNanos();
        while (open.size() > 0 && System.nanoTime() < deadline) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(10));
        }
    }

    @Override
    public void close() throws IOException {
        synchronized (this) {
            over = true;
        }
        door.close();
        open.forEach(Connection::close);
    }
}
