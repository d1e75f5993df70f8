package dev.octet.trainer.launch;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;

/** Relays that know each other from the start. */
record FixedRendezvous(RelayPlace place, Invitation invitation) implements Rendezvous {
    /** A place on this machine where nobody listens. */
    static Invitation somewhere() throws IOException {
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return Invitation.random("127.0.0.1", free.getLocalPort());
        }
    }

    @Override
    public InetSocketAddress door() {
        return new InetSocketAddress(invitation.host(), invitation.port());
    }

    @Override
    public Invitation invite(int port) {
        return invitation;
    }

    @Override
    public Invitation await() {
        return invitation;
    }
}
