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
 * An event file of scalars per step, texts and hyperparameters, {@code events.out.tfevents.*}.
 *
 * <p>Framing (TFRecord; TensorFlow, {@code tsl/lib/io/record_writer.h}): 8 bytes little-endian length, masked CRC-32C of the length,
 * message, masked CRC-32C of the message. Messages are {@code Event}s (TensorFlow, {@code core/util/event.proto} and
 * {@code core/framework/summary.proto}); only a few fields are written, see the constants.
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
    private static final int TENSOR = 8;
    private static final int METADATA = 9;
    // fields of SummaryMetadata and of its PluginData
    private static final int PLUGIN_DATA = 1;
    private static final int DATA_CLASS = 4;
    private static final int PLUGIN_NAME = 1;
    private static final int CONTENT = 2;
    private static final int DATA_CLASS_TENSOR = 2;
    // fields of TensorProto, its shape and that one's only dimension; number types
    private static final int DTYPE = 1;
    private static final int TENSOR_SHAPE = 2;
    private static final int DIM = 2;
    private static final int SIZE = 1;
    private static final int FLOAT_VAL = 5;
    private static final int STRING_VAL = 8;
    private static final int DT_FLOAT = 1;
    private static final int DT_STRING = 7;
    // fields of HParamsPluginData and of what it holds (TensorBoard, plugins/hparams/plugin_data.proto)
    private static final int SESSION_START_INFO = 3;
    private static final int SESSION_END_INFO = 4;
    private static final int HPARAMS = 1;
    private static final int START_TIME = 5;
    private static final int END_STATUS = 1;
    private static final int END_TIME = 2;
    private static final int SUCCESS = 1;
    private static final int FAILURE = 2;
    // fields of an entry of a map, and of google.protobuf.Value
    private static final int KEY = 1;
    private static final int ENTRY_VALUE = 2;
    private static final int NUMBER_VALUE = 2;
    private static final int STRING_VALUE = 3;
    private static final int BOOL_VALUE = 4;
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
     * Creates a file in a folder; earlier files of the run stay, and readers combine them.
     *
     * @param firstStep first step to be written; readers then ignore earlier files from this step on
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
            return "localhost"; // the name only makes files distinct
        }
    }

    /**
     * Writes the values of one step.
     *
     * @throws IOException when the file cannot be written
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

    /**
     * Writes a text, which TensorBoard shows as Markdown.
     *
     * @throws IOException when the file cannot be written
     */
    public void text(long step, String tag, String markdown) throws IOException {
        ByteString tensor = message(t -> {
            t.writeEnum(DTYPE, DT_STRING);
            t.writeBytes(TENSOR_SHAPE, vectorOfOne());
            t.writeBytes(STRING_VAL, ByteString.copyFromUtf8(markdown));
        });
        plugin(step, tag, "text", ByteString.EMPTY, tensor);
    }

    /**
     * Writes the hyperparameters of a run: what can be read as a number or as {@code true} or {@code false} is one, anything else is text.
     *
     * @throws IOException when the file cannot be written
     */
    public void hyperparameters(long step, Map<String, String> values) throws IOException {
        ByteString start = message(info -> {
            for (Map.Entry<String, String> value : values.entrySet()) {
                info.writeBytes(HPARAMS, message(entry -> {
                    entry.writeString(KEY, value.getKey());
                    entry.writeBytes(ENTRY_VALUE, value(value.getValue()));
                }));
            }
            info.writeDouble(START_TIME, clock.millis() / 1e3);
        });
        session(step, "_hparams_/session_start_info", message(d -> d.writeBytes(SESSION_START_INFO, start)));
    }

    /**
     * Says how the run with these hyperparameters ended.
     *
     * @throws IOException when the file cannot be written
     */
    public void ended(long step, boolean success) throws IOException {
        ByteString end = message(info -> {
            info.writeEnum(END_STATUS, success ? SUCCESS : FAILURE);
            info.writeDouble(END_TIME, clock.millis() / 1e3);
        });
        session(step, "_hparams_/session_end_info", message(d -> d.writeBytes(SESSION_END_INFO, end)));
    }

    private static ByteString value(String text) throws IOException {
        return message(value -> {
            if (text.equals("true") || text.equals("false")) {
                value.writeBool(BOOL_VALUE, text.equals("true"));
            } else if (text.matches("-?\\d{1,18}(\\.\\d{1,18})?(E-?\\d{1,3})?")) {
                value.writeDouble(NUMBER_VALUE, Double.parseDouble(text));
            } else {
                value.writeString(STRING_VALUE, text);
            }
        });
    }

    private void session(long step, String tag, ByteString content) throws IOException {
        // the plugin reads only the metadata, but readers leave out a value without a tensor
        ByteString nothing = message(t -> {
            t.writeEnum(DTYPE, DT_FLOAT);
            t.writeBytes(TENSOR_SHAPE, vectorOfOne());
            t.writeBytes(FLOAT_VAL, ByteString.copyFrom(new byte[Float.BYTES]));
        });
        plugin(step, tag, "hparams", content, nothing);
    }

    private static ByteString vectorOfOne() throws IOException {
        return message(shape -> shape.writeBytes(DIM, message(dim -> dim.writeInt64(SIZE, 1))));
    }

    private void plugin(long step, String tag, String name, ByteString content, ByteString tensor) throws IOException {
        ByteString metadata = message(m -> {
            m.writeBytes(PLUGIN_DATA, message(p -> {
                p.writeString(PLUGIN_NAME, name);
                if (!content.isEmpty()) {
                    p.writeBytes(CONTENT, content);
                }
            }));
            m.writeEnum(DATA_CLASS, DATA_CLASS_TENSOR);
        });
        ByteString summary = message(out -> out.writeBytes(VALUE, message(v -> {
            v.writeString(TAG, tag);
            v.writeBytes(TENSOR, tensor);
            v.writeBytes(METADATA, metadata);
        })));
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

    /** CRC-32C, rotated and offset as TFRecord requires, so that checksums of data that contains checksums stay reliable. */
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
