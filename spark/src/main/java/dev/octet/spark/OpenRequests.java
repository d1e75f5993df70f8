package dev.octet.spark;

import dev.octet.pipeline.CheckpointShards;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;

/**
 * The requests that a process has open: the tasks of one run share one, as making its plan reads the headers of all files. That of another run is
 * closed when nobody uses it.
 */
final class OpenRequests {
    private static final Map<String, Lease> OPEN = new HashMap<>();

    private OpenRequests() {}

    /** Opens what is not open yet. */
    interface Opening {
        CheckpointShards open() throws IOException;
    }

    /** A request in use; closing it ends the use. */
    static final class Lease implements AutoCloseable {
        private final CheckpointShards shards;
        private int users;

        private Lease(CheckpointShards shards) {
            this.shards = shards;
        }

        CheckpointShards shards() {
            return shards;
        }

        @Override
        public void close() {
            synchronized (OPEN) {
                users--;
            }
        }
    }

    /** The request of a run. */
    static Lease take(String run, Opening opening) throws IOException {
        synchronized (OPEN) { // tasks of the run wait for its plan
            Lease lease = OPEN.get(run);
            if (lease == null) {
                closeUnused();
                lease = new Lease(opening.open());
                OPEN.put(run, lease);
            }
            lease.users++;
            return lease;
        }
    }

    private static void closeUnused() throws IOException {
        for (var entries = OPEN.values().iterator(); entries.hasNext(); ) {
            Lease lease = entries.next();
            if (lease.users == 0) {
                entries.remove();
                lease.shards.close();
            }
        }
    }

    /** Closes the request of a run that is over, where driver and executor are one process. */
    static void end(String run) throws IOException {
        synchronized (OPEN) {
            Lease lease = OPEN.get(run);
            if (lease != null && lease.users == 0) {
                OPEN.remove(run);
                lease.shards.close();
            }
        }
    }
}
