package dev.octet.trainer.launch;

import java.io.IOException;
import java.net.InetSocketAddress;

/** How the relays of a run find each other, and what only they know; each way of placing processes has its own. */
public interface Rendezvous {
    /** Where this process stands. */
    RelayPlace place();

    /**
     * Where the first relay listens; port 0 for any that is free. Asked only where there are several relays.
     *
     * @throws IOException when the address is not known here
     */
    InetSocketAddress door() throws IOException;

    /**
     * Called by the first relay alone, when it listens: tells the others.
     *
     * @param port where it listens
     * @return what they are told
     * @throws IOException when they cannot be told
     */
    Invitation invite(int port) throws IOException, InterruptedException;

    /**
     * Called by every other relay: what the first one told.
     *
     * @throws IOException when nothing can be heard
     */
    Invitation await() throws IOException, InterruptedException;
}
