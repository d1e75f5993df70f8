package dev.octet.trainer.tensorboard;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Clock;
import java.util.Locale;
import java.util.Map;
import java.util.zip.CRC32C;

/**
 * A file of scalars over steps, {@code events.out.tfevents.*}.
 *
 * <p>Framing (TFRecord; TensorFlow, {@code tsl/lib/io/record_writer.h}): length as 8 bytes little-endian, masked CRC-32C of these, the
 * message, masked CRC-32C of it. Messages are {@code Event}s (TensorFlow, {@code core/util/event.proto} and
 * {@code core/framework/summary.proto}), of which a handful of fields are written; see the constants.
 */
public final class EventFile implements AutoCloseable {
    // fields of Event
    private static final int WALL_TIME = 1;
    private static final int STEP = 2;
    private static final int FILE_VERSION = 3;
    private static final int SUMMARY = 5;
    private static final int SESSION_LOG = 7;
    // fields of Summary and Summary.Value
    private static final int VALUE = 1;
    private static final int TAG = 1;
    private static final int SIMPLE_VALUE = 2;
    // field of SessionLog and its value START
    private static final int STATUS = 1;
    private static final int START = 1;

    private static final String VERSION = "brain.Event:2";

    private final FileChannel channel;
    private final Clock clock;

    private EventFile(FileChannel channel, Clock clock) {
        this.channel = channel;
        this.clock = clock;
    }

    /**
     * Starts a file in a folder; earlier ones of the same run stay, readers take them together.
     *
     * @param firstStep the first step that will be written; what earlier files say of it and later steps is then passed over
     * @throws IOException when the folder is not writable
     */
    public static EventFile create(Path folder, long firstStep, Clock clock) throws IOException {
        Files.createDirectories(folder);
        String stem = String.format(
                Locale.ROOT,
                "events.out.tfevents.%010d.%s.%d",
                clock.millis() / 1000,
                host(),
                ProcessHandle.current().pid());
        int number = 0;
        while (Files.exists(folder.resolve(stem + "." + number))) {
            number++;
        }
        FileChannel channel = FileChannel.open(
                folder.resolve(stem + "." + number), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        EventFile file = new EventFile(channel, clock);
        try {
            file.event(0, out -> out.writeString(FILE_VERSION, VERSION));
            file.event(firstStep, out -> out.writeBytes(SESSION_LOG, message(log -> log.writeEnum(STATUS, START))));
        } catch (IOException e) {
            channel.close();
            throw e;
        }
        return file;
    }

    private static String host() {
        try {
            return InetAddress.getLocalHost().getHostName().replaceAll("[^A-Za-z0-9.-]", "-");
        } catch (UnknownHostException e) {
            return "localhost"; // the name only tells files apart
        }
    }

    /**
     * Writes the values of one step.
     *
     * @throws IOException when there is no space
     */
    public void scalars(long step, Map<String, Double> values) throws IOException {
        ByteString summary = message(out -> {
            for (Map.Entry<String, Double> value : values.entrySet()) {
                out.writeBytes(VALUE, message(v -> {
                    v.writeString(TAG, value.getKey());
                    v.writeFloat(SIMPLE_VALUE, value.getValue().floatValue());
                }));
            }
        });
        event(step, out -> out.writeBytes(SUMMARY, summary));
    }

    /** Fields of a message. */
    private interface Fields {
        void write(CodedOutputStream out) throws IOException;
    }

    private static ByteString message(Fields fields) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        CodedOutputStream out = CodedOutputStream.newInstance(bytes);
        fields.write(out);
        out.flush();
        return ByteString.copyFrom(bytes.toByteArray());
    }

    private void event(long step, Fields what) throws IOException {
        record(message(out -> {
                    out.writeDouble(WALL_TIME, clock.millis() / 1e3);
                    out.writeInt64(STEP, step);
                    what.write(out);
                })
                .toByteArray());
    }

    private void record(byte[] message) throws IOException {
        ByteBuffer framed = ByteBuffer.allocate(8 + 4 + message.length + 4).order(ByteOrder.LITTLE_ENDIAN);
        framed.putLong(message.length);
        framed.putInt(maskedCrc(framed.array(), 0, 8));
        framed.put(message).putInt(maskedCrc(message, 0, message.length)).flip();
        while (framed.hasRemaining()) {
            channel.write(framed);
        }
    }

    /** A checksum rotated and shifted, so that the checksum of data that holds checksums is still good. */
    private static int maskedCrc(byte[] bytes, int from, int length) {
        CRC32C crc = new CRC32C();
        crc.update(bytes, from, length);
        return Integer.rotateRight((int) crc.getValue(), 15) + 0xA282EAD8;
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
