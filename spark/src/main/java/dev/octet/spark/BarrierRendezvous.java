package dev.octet.spark;

import dev.octet.trainer.launch.Invitation;
import dev.octet.trainer.launch.RelayPlace;
import dev.octet.trainer.launch.Rendezvous;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.apache.spark.BarrierTaskContext;
import org.apache.spark.SparkEnv;

/**
 * The tasks of a barrier stage, one for each rank. Of those of an executor the first one is its relay: ranks are then children of the executor that Spark has given their
 * cores and memory to. The first relay makes a secret and tells it with its address by {@code allGather}, on Spark's own connections.
 */
final class BarrierRendezvous implements Rendezvous {
    private final BarrierTaskContext context;
    private final RelayPlace place;
    private final boolean relay;
    private boolean told;

    private BarrierRendezvous(BarrierTaskContext context, RelayPlace place, boolean relay) {
        this.context = context;
        this.place = place;
        this.relay = relay;
    }

    /** Asks where the tasks are; to be called by all. */
    static BarrierRendezvous of(BarrierTaskContext context) {
        List<String> executors = Arrays.asList(context.allGather(SparkEnv.get().executorId()));
        List<String> relays = new ArrayList<>();
        executors.stream().filter(e -> !relays.contains(e)).forEach(relays::add);
        String own = executors.get(context.partitionId());
        RelayPlace place = new RelayPlace(
                relays.indexOf(own), relays.size(), Collections.frequency(executors, own), executors.size());
        return new BarrierRendezvous(context, place, executors.indexOf(own) == context.partitionId());
    }

    /** Whether this task is its executor's relay; another one only {@linkplain #standBy stands by}. */
    boolean isRelay() {
        return relay;
    }

    /** Takes part in what all tasks must; to be called by all when they are done, and by those that are no relays at once. */
    void standBy() {
        if (place.relays() > 1 && !told) {
            hear("");
        }
        context.barrier();
    }

    @Override
    public RelayPlace place() {
        return place;
    }

    /** Where this executor's blocks are served, too. */
    private static String host() {
        return SparkEnv.get().blockManager().blockManagerId().host();
    }

    @Override
    public InetSocketAddress door() throws IOException {
        return new InetSocketAddress(InetAddress.getByName(host()), 0);
    }

    @Override
    public Invitation invite(int port) {
        Invitation own = Invitation.random(host(), port);
        return hear(own.host() + " " + own.port() + " " + own.secret());
    }

    @Override
    public Invitation await() throws IOException {
        return hear("");
    }

    private Invitation hear(String own) {
        told = true;
        String[] words = Arrays.stream(context.allGather(own))
                .filter(said -> !said.isEmpty())
                .findFirst()
                .map(said -> said.split(" ", -1))
                .filter(said -> said.length == 3)
                .orElseThrow(() -> new IllegalStateException("the first relay ended before it told where it listens"));
        return new Invitation(words[0], Integer.parseInt(words[1]), words[2]);
    }
}
