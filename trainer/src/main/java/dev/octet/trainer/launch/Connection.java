package dev.octet.trainer.launch;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import java.util.concurrent.locks.LockSupport;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Frames between two processes that know one secret. Each proves it to the other without telling it (HMAC-SHA256 of two fresh numbers), and signs each frame with its place in
 * the order, so that nobody between them can add, change, drop or repeat any. What they say can be read on the way.
 *
 * <p>A frame: length of the content (4 bytes, big-endian), kind (1), content, signature (32). Both sides send an empty one every few seconds; a side that hears nothing for
 * long takes the other for gone. Uses the JDK alone, as {@link Agent} does.
 */
final class Connection implements AutoCloseable {
    private static final byte[] MAGIC = "octet relay 1\n".getBytes(StandardCharsets.US_ASCII);
    private static final String ALGORITHM = "HmacSHA256";
    private static final int DIGEST = 32;
    private static final int LARGEST = 1 << 20;
    private static final Duration GREETING = Duration.ofSeconds(10);
    private static final Duration PULSE = Duration.ofSeconds(5);
    private static final Duration SILENCE = Duration.ofSeconds(30);
    private static final Duration PAUSE = Duration.ofMillis(200);

    private final Socket socket;
    private final DataInputStream in;
    private final DataOutputStream out;
    private final Object sending = new Object();
    private final Seal sent;
    private final Seal received;

    /** What a frame is. */
    enum Kind {
        /** Nothing but a sign of life. */
        PULSE('p'),
        /** Who calls. */
        HELLO('h'),
        /** A command to run. */
        RUN('r'),
        /** What it wrote to its standard output. */
        OUT('o'),
        /** What it wrote to its standard error. */
        ERR('e'),
        /** Its exit code. */
        EXIT('x'),
        /** That it is to end. */
        STOP('s'),
        /** That all is over, with the exit code of the ranks. */
        DONE('d'),
        /** Why the other side is not wanted. */
        REFUSED('n');

        private final byte code;

        Kind(char code) {
            this.code = (byte) code;
        }

        static Kind of(byte code) throws IOException {
            for (Kind kind : values()) {
                if (kind.code == code) {
                    return kind;
                }
            }
            throw new IOException("no frame of a relay");
        }
    }

    /** A frame. */
    static final class Frame {
        private final Kind kind;
        private final byte[] content;

        Frame(Kind kind, byte[] content) {
            this.kind = kind;
            this.content = content;
        }

        Kind kind() {
            return kind;
        }

        String text() {
            return new String(content, StandardCharsets.UTF_8);
        }

        int number() {
            return Integer.parseInt(text());
        }

        void writeTo(OutputStream stream) throws IOException {
            stream.write(content);
            stream.flush();
        }
    }

    /** The other side does not know the secret. */
    static final class WrongSecretException extends IOException {
        private static final long serialVersionUID = 1L;

        WrongSecretException(String who) {
            super(who + " has another secret");
        }
    }

    /** Signs the frames of one direction. */
    private static final class Seal {
        private final byte[] key;
        private long frames;

        Seal(byte[] key) {
            this.key = key;
        }

        byte[] next(Kind kind, byte[] content) {
            byte[] head = ByteBuffer.allocate(Long.BYTES + 1)
                    .putLong(frames++)
                    .put(kind.code)
                    .array();
            return hmac(key, head, content);
        }
    }

    private Connection(Socket socket, DataInputStream in, DataOutputStream out, Seal sent, Seal received)
            throws IOException {
        this.socket = socket;
        this.in = in;
        this.out = out;
        this.sent = sent;
        this.received = received;
        socket.setTcpNoDelay(true);
        socket.setSoTimeout((int) SILENCE.toMillis());
        Thread.ofVirtual().start(this::pulse);
    }

    private static byte[] hmac(byte[] key, byte[]... parts) {
        try {
            Mac mac = Mac.getInstance(ALGORITHM);
            mac.init(new SecretKeySpec(key, ALGORITHM));
            for (byte[] part : parts) {
                mac.update(part);
            }
            return mac.doFinal();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException("every JDK has " + ALGORITHM, e);
        }
    }

    private static byte[] label(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static byte[] nonce() {
        byte[] nonce = new byte[DIGEST];
        new SecureRandom().nextBytes(nonce);
        return nonce;
    }

    private static byte[] bytes(DataInputStream in, int count) throws IOException {
        byte[] bytes = new byte[count];
        in.readFully(bytes);
        return bytes;
    }

    /**
     * Calls who listens, again and again for so long.
     *
     * @throws WrongSecretException when it has another secret
     * @throws IOException when nobody answers in time
     */
    static Connection call(Invitation invitation, Duration patience) throws IOException, InterruptedException {
        long start = System.nanoTime();
        while (true) {
            try {
                return callOnce(invitation);
            } catch (WrongSecretException e) {
                throw e;
            } catch (IOException e) {
                if (System.nanoTime() - start > patience.toNanos()) {
                    throw e;
                }
                Thread.sleep(PAUSE);
            }
        }
    }

    private static Connection callOnce(Invitation invitation) throws IOException {
        Socket socket = new Socket();
        try {
            socket.setSoTimeout((int) GREETING.toMillis());
            socket.connect(new InetSocketAddress(invitation.host(), invitation.port()), (int) GREETING.toMillis());
            DataInputStream in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            DataOutputStream out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
            byte[] own = nonce();
            out.write(MAGIC);
            out.write(own);
            out.flush();
            byte[] magic = bytes(in, MAGIC.length);
            if (!Arrays.equals(magic, MAGIC)) {
                throw new IOException("who listens there is no relay");
            }
            byte[] other = bytes(in, DIGEST);
            byte[] key = invitation.key();
            if (!MessageDigest.isEqual(bytes(in, DIGEST), hmac(key, label("listens"), own, other))) {
                throw new WrongSecretException("who listens at " + invitation);
            }
            out.write(hmac(key, label("calls"), own, other));
            out.flush();
            return new Connection(
                    socket,
                    in,
                    out,
                    new Seal(hmac(key, label("from who calls"), own, other)),
                    new Seal(hmac(key, label("from who listens"), own, other)));
        } catch (IOException | RuntimeException e) {
            socket.close();
            throw e;
        }
    }

    /**
     * Answers a call.
     *
     * @throws WrongSecretException when who calls has another secret
     * @throws IOException when it does not greet in time
     */
    static Connection answer(Socket socket, Invitation invitation) throws IOException {
        try {
            socket.setSoTimeout((int) GREETING.toMillis());
            DataInputStream in = new DataInputStream(new BufferedInputStream(socket.getInputStream()));
            DataOutputStream out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
            if (!Arrays.equals(bytes(in, MAGIC.length), MAGIC)) {
                throw new IOException("who calls is no relay");
            }
            byte[] other = bytes(in, DIGEST);
            byte[] own = nonce();
            byte[] key = invitation.key();
            out.write(MAGIC);
            out.write(own);
            out.write(hmac(key, label("listens"), other, own));
            out.flush();
            byte[] proof;
            try {
                proof = bytes(in, DIGEST);
            } catch (EOFException e) { // it has seen that ours is wrong
                throw new WrongSecretException("who calls from " + socket.getRemoteSocketAddress());
            }
            if (!MessageDigest.isEqual(proof, hmac(key, label("calls"), other, own))) {
                throw new WrongSecretException("who calls from " + socket.getRemoteSocketAddress());
            }
            return new Connection(
                    socket,
                    in,
                    out,
                    new Seal(hmac(key, label("from who listens"), other, own)),
                    new Seal(hmac(key, label("from who calls"), other, own)));
        } catch (IOException | RuntimeException e) {
            socket.close();
            throw e;
        }
    }

    private void pulse() {
        try {
            while (!socket.isClosed()) {
                LockSupport.parkNanos(PULSE.toNanos());
                send(Kind.PULSE, "");
            }
        } catch (IOException e) {
            close(); // whoever receives sees the end, too
        }
    }

    void send(Kind kind, String text) throws IOException {
        byte[] content = text.getBytes(StandardCharsets.UTF_8);
        send(kind, content, 0, content.length);
    }

    void send(Kind kind, byte[] bytes, int offset, int count) throws IOException {
        byte[] content = Arrays.copyOfRange(bytes, offset, offset + count);
        if (count > LARGEST) {
            throw new IOException("a frame of " + count + " bytes is too large");
        }
        synchronized (sending) {
            out.writeInt(count);
            out.writeByte(kind.code);
            out.write(content);
            out.write(sent.next(kind, content));
            out.flush();
        }
    }

    /** Sends on what came from elsewhere. */
    void send(Frame frame) throws IOException {
        send(frame.kind, frame.content, 0, frame.content.length);
    }

    /** A stream whose bytes arrive as frames. */
    OutputStream stream(Kind kind) {
        return new OutputStream() {
            @Override
            public void write(int b) throws IOException {
                write(new byte[] {(byte) b}, 0, 1);
            }

            @Override
            public void write(byte[] bytes, int offset, int count) throws IOException {
                send(kind, bytes, offset, count);
            }
        };
    }

    /**
     * The next frame that is more than a sign of life.
     *
     * @throws IOException when the other side is gone, or a frame is not from it
     */
    Frame receive() throws IOException {
        while (true) {
            try {
                int count = in.readInt();
                Kind kind = Kind.of(in.readByte());
                if (count < 0 || count > LARGEST) {
                    throw new IOException("no frame of a relay");
                }
                byte[] content = bytes(in, count);
                if (!MessageDigest.isEqual(bytes(in, DIGEST), received.next(kind, content))) {
                    throw new IOException("a frame that the other side has not signed");
                }
                if (kind != Kind.PULSE) {
                    return new Frame(kind, content);
                }
            } catch (SocketTimeoutException e) {
                close();
                throw new IOException("nothing heard for " + SILENCE.toSeconds() + " s", e);
            }
        }
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException e) {
            System.getLogger(Connection.class.getName()).log(System.Logger.Level.DEBUG, "closed already", e);
        }
    }
}
