package dev.octet.trainer.launch;

import dev.octet.formats.error.InvalidOptionException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Map;

/**
 * The processes of torchrun, or of another launcher that sets {@code RANK}, {@code WORLD_SIZE}, {@code MASTER_ADDR} and {@code MASTER_PORT}. Of those of a machine the one
 * with {@code LOCAL_RANK} 0 is its relay; where {@code LOCAL_WORLD_SIZE} is not set, each process is one.
 */
public final class TorchrunRendezvous implements Rendezvous {
    /** What the relays of several machines share; torchrun has nothing that others may not know. */
    public static final String SECRET = "OCTET_RELAY_SECRET";

    /** Where the first relay listens. */
    public static final String PORT = "OCTET_RELAY_PORT";

    /** Shorter ones could be guessed by who has seen a greeting. */
    static final int LEAST_SECRET = 16;

    private static final int LAST_PORT = 65535;

    private final Map<String, String> variables;
    private final RelayPlace place;
    private final boolean relay;

    private TorchrunRendezvous(Map<String, String> variables, RelayPlace place, boolean relay) {
        this.variables = variables;
        this.place = place;
        this.relay = relay;
    }

    /**
     * Reads the variables.
     *
     * @throws InvalidOptionException when one is missing or no number, or there is no secret where one is needed
     */
    public static TorchrunRendezvous of(Map<String, String> variables) {
        int ranks = number(variables, "WORLD_SIZE");
        int rank = number(variables, "RANK");
        boolean grouped = variables.containsKey("LOCAL_WORLD_SIZE");
        int slots = grouped ? number(variables, "LOCAL_WORLD_SIZE") : 1;
        int relays = variables.containsKey("GROUP_WORLD_SIZE")
                ? number(variables, "GROUP_WORLD_SIZE")
                : Math.ceilDiv(ranks, Math.max(1, slots));
        int number =
                relays == 1 ? 0 : variables.containsKey("GROUP_RANK") ? number(variables, "GROUP_RANK") : rank / slots;
        // with --virtual-local-rank each process is told that it is the first
        boolean first = relays == 1 ? rank == 0 : !grouped || number(variables, "LOCAL_RANK") == 0;
        if (slots < 1 || slots > ranks || number >= relays) {
            throw new InvalidOptionException(
                    "there is no place for rank " + rank + " of " + ranks + " on machine " + number + " of " + relays
                            + " with " + slots + " ranks",
                    "environment variables WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, GROUP_WORLD_SIZE",
                    "start the run with torchrun again");
        }
        TorchrunRendezvous all = new TorchrunRendezvous(variables, new RelayPlace(number, relays, slots, ranks), first);
        if (relays > 1 && first && all.secret().length() < LEAST_SECRET) {
            throw new InvalidOptionException(
                    "on several machines relays need a secret of at least " + LEAST_SECRET
                            + " characters, with which they know each other",
                    "environment variable " + SECRET,
                    "make one (openssl rand -hex 32) and set it for torchrun on each machine; or use mpirun");
        }
        return all;
    }

    private String secret() {
        return variables.getOrDefault(SECRET, "");
    }

    private static int number(Map<String, String> variables, String name) {
        String text = variables.getOrDefault(name, "");
        if (!text.matches("\\d{1,9}")) {
            throw new InvalidOptionException(
                    variables.containsKey(name) ? "'" + text + "' is no whole number" : name + " is not set",
                    "environment variable " + name,
                    "start the run with torchrun, which sets it");
        }
        return Integer.parseInt(text);
    }

    /** Whether this process is its machine's relay; another one has nothing to do. */
    public boolean isRelay() {
        return relay;
    }

    @Override
    public RelayPlace place() {
        return place;
    }

    /** The address of MASTER_ADDR; any of this machine where that is one that others cannot reach, as a machine's own name may be. */
    @Override
    public InetSocketAddress door() throws UnknownHostException {
        InetAddress address = InetAddress.getByName(host());
        return address.isLoopbackAddress() ? new InetSocketAddress(port()) : new InetSocketAddress(address, port());
    }

    private String host() {
        String host = variables.getOrDefault("MASTER_ADDR", "");
        if (host.isEmpty()) {
            throw new InvalidOptionException(
                    "MASTER_ADDR is not set",
                    "environment variable MASTER_ADDR",
                    "start the run with torchrun, which sets it");
        }
        return host;
    }

    /** At MASTER_PORT torchrun's own store listens. */
    private int port() {
        if (variables.containsKey(PORT)) {
            return number(variables, PORT);
        }
        int store = number(variables, "MASTER_PORT");
        return store < LAST_PORT ? store + 1 : store - 1;
    }

    @Override
    public Invitation invite(int port) {
        return await();
    }

    @Override
    public Invitation await() {
        return new Invitation(host(), port(), secret());
    }
}
