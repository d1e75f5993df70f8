package dev.octet.trainer.launch;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.octet.trainer.launch.Connection.Frame;
import dev.octet.trainer.launch.Connection.Kind;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;

/** What two processes with one secret say to each other, and somebody between them. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ConnectionTest {
    /** Bytes of a greeting that who calls sends: the magic, a number, a proof. */
    private static final int GREETING = 14 + 32 + 32;

    private static ServerSocket door() throws IOException {
        return new ServerSocket(0, 2, InetAddress.getLoopbackAddress());
    }

    private static CompletableFuture<Connection> answer(ServerSocket door, Invitation invitation) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return Connection.answer(door.accept(), invitation);
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    /** Passes bytes on both ways; on the way to who listens it flips a bit of the byte with this number. */
    private static void between(ServerSocket from, int port, long changed) {
        Thread.ofVirtual().start(() -> {
            try {
                Socket caller = from.accept();
                Socket listener = new Socket(InetAddress.getLoopbackAddress(), port);
                Thread.ofVirtual().start(() -> copy(listener, caller, -1));
                copy(caller, listener, changed);
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
        });
    }

    private static void copy(Socket from, Socket to, long changed) {
        try (from;
                to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            long at = 0;
            for (int b = in.read(); b >= 0; b = in.read()) {
                out.write(at++ == changed ? b ^ 1 : b);
            }
        } catch (IOException e) {
            // one of the two is gone, and so is the other now
        }
    }

    @Test
    void frames_arrive_as_they_were_sent_in_their_order() throws Exception {
        try (ServerSocket door = door()) {
            Invitation invitation = Invitation.random("127.0.0.1", door.getLocalPort());
            CompletableFuture<Connection> answered = answer(door, invitation);
            Connection listener;
            try (Connection caller = Connection.call(invitation, Duration.ofSeconds(5))) {
                listener = answered.get(5, TimeUnit.SECONDS);
                caller.send(Kind.HELLO, "a\nb");
                caller.send(Kind.EXIT, "7");
                listener.send(Kind.OUT, new byte[] {1, 2, 3}, 1, 2);
                assertEquals("a\nb", listener.receive().text());
                assertEquals(7, listener.receive().number());
                Frame out = caller.receive();
                assertEquals(Kind.OUT, out.kind());
                ByteArrayOutputStream bytes = new ByteArrayOutputStream();
                out.writeTo(bytes);
                assertArrayEquals(new byte[] {2, 3}, bytes.toByteArray());
            }
            try (listener) {
                assertThrows(IOException.class, listener::receive);
            }
        }
    }

    @Test
    void a_frame_that_somebody_between_changed_is_not_taken() throws Exception {
        String command = "echo good";
        // length, kind; the last letter of the command; the first byte of the signature
        for (int place : new int[] {4, 5 + command.length() - 1, 5 + command.length()}) {
            try (ServerSocket door = door();
                    ServerSocket between = door()) {
                Invitation real = Invitation.random("127.0.0.1", door.getLocalPort());
                between(between, door.getLocalPort(), GREETING + place);
                CompletableFuture<Connection> answered = answer(door, real);
                try (Connection caller = Connection.call(
                                new Invitation(real.host(), between.getLocalPort(), real.secret()),
                                Duration.ofSeconds(5));
                        Connection listener = answered.get(5, TimeUnit.SECONDS)) {
                    caller.send(Kind.RUN, command);
                    assertEquals(
                            "a frame that the other side has not signed",
                            assertThrows(IOException.class, listener::receive).getMessage());
                }
            }
        }
    }

    @Test
    void who_has_another_secret_is_known_by_both_sides() throws Exception {
        try (ServerSocket door = door()) {
            Invitation invitation = Invitation.random("127.0.0.1", door.getLocalPort());
            CompletableFuture<Connection> answered = answer(door, invitation);
            Invitation other = Invitation.random("127.0.0.1", door.getLocalPort());
            assertThrows(Connection.WrongSecretException.class, () -> Connection.call(other, Duration.ofSeconds(5)));
            Throwable thrown = assertThrows(ExecutionException.class, () -> answered.get(5, TimeUnit.SECONDS))
                    .getCause();
            assertInstanceOf(
                    Connection.WrongSecretException.class,
                    Objects.requireNonNull(thrown).getCause());
        }
    }
}
