package dev.octet.formats.onnx;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import com.google.protobuf.WireFormat;
import dev.octet.formats.file.ByteSink;
import dev.octet.formats.onnx.proto.TensorProto;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * A message whose {@code held} entries are written as the bytes they refer to, directly from their segments: the inverse of {@link
 * StrippedProto}. Fields that contain such entries are written after the other fields of their message, because the order of different
 * fields is irrelevant in protobuf.
 */
final class SplicedMessage {
    private static final int BUFFER_BYTES = 1 << 16;

    private final Message plain;
    private final List<Part> parts;
    private final long size;

    private sealed interface Part {}

    private record Child(int field, SplicedMessage message) implements Part {}

    private record Data(int field, MemorySegment bytes) implements Part {}

    private SplicedMessage(Message plain, List<Part> parts) {
        this.plain = plain;
        this.parts = parts;
        long sum = plain.getSerializedSize();
        for (Part p : parts) {
            sum += switch (p) {
                case Child c -> header(c.field(), c.message().size) + c.message().size;
                case Data d ->
                    header(d.field(), d.bytes().byteSize()) + d.bytes().byteSize();
            };
        }
        this.size = sum;
    }

    /** {@code segments}: the targets of positions in {@code held}. */
    static SplicedMessage of(Message m, List<MemorySegment> segments) {
        SplicedMessage spliced = find(m, segments);
        return spliced == null ? new SplicedMessage(m, List.of()) : spliced;
    }

    /** Null when {@code m} has no held entries. */
    private static @Nullable SplicedMessage find(Message m, List<MemorySegment> segments) {
        if (m instanceof TensorProto t) {
            return t.getHeldCount() == 0 ? null : tensor(t, segments);
        }
        Message.Builder plain = null;
        List<Part> parts = new ArrayList<>();
        for (Map.Entry<FieldDescriptor, Object> e : m.getAllFields().entrySet()) {
            FieldDescriptor field = e.getKey();
            if (field.getJavaType() != FieldDescriptor.JavaType.MESSAGE) {
                continue;
            }
            List<Part> found = children(field, e.getValue(), segments);
            if (!found.isEmpty()) {
                plain = plain == null ? m.toBuilder() : plain;
                plain.clearField(field);
                parts.addAll(found);
            }
        }
        return plain == null ? null : new SplicedMessage(plain.buildPartial(), parts);
    }

    /** All messages of a field if any of them has held entries, because the messages must stay in order. */
    private static List<Part> children(FieldDescriptor field, Object value, List<MemorySegment> segments) {
        List<?> messages = value instanceof List<?> l ? l : List.of(value);
        List<Part> parts = new ArrayList<>(messages.size());
        boolean any = false;
        for (Object o : messages) {
            Message child = (Message) o;
            SplicedMessage spliced = find(child, segments);
            any |= spliced != null;
            parts.add(new Child(field.getNumber(), spliced == null ? new SplicedMessage(child, List.of()) : spliced));
        }
        return any ? parts : List.of();
    }

    private static SplicedMessage tensor(TensorProto t, List<MemorySegment> segments) {
        List<Part> parts = new ArrayList<>();
        for (TensorProto.Held h : t.getHeldList()) {
            parts.add(new Data(h.getField(), segments.get((int) h.getPosition())));
        }
        return new SplicedMessage(t.toBuilder().clearHeld().build(), parts);
    }

    private static long header(int field, long length) {
        return (long) CodedOutputStream.computeTagSize(field) + CodedOutputStream.computeUInt64SizeNoTag(length);
    }

    /** Bytes of the whole message. */
    long size() {
        return size;
    }

    /** Writes the whole message. */
    void writeTo(ByteSink sink) throws IOException {
        CodedOutputStream out = CodedOutputStream.newInstance(new SinkStream(sink), BUFFER_BYTES);
        write(out, sink);
        out.flush();
    }

    private void write(CodedOutputStream out, ByteSink sink) throws IOException {
        plain.writeTo(out);
        for (Part p : parts) {
            switch (p) {
                case Child c -> {
                    out.writeTag(c.field(), WireFormat.WIRETYPE_LENGTH_DELIMITED);
                    out.writeUInt64NoTag(c.message().size);
                    c.message().write(out, sink);
                }
                case Data d -> {
                    out.writeTag(d.field(), WireFormat.WIRETYPE_LENGTH_DELIMITED);
                    out.writeUInt64NoTag(d.bytes().byteSize());
                    out.flush();
                    sink.write(d.bytes());
                }
            }
        }
    }

    /** Passes protobuf's output to a sink. */
    private static final class SinkStream extends OutputStream {
        private final ByteSink sink;

        SinkStream(ByteSink sink) {
            this.sink = sink;
        }

        @Override
        public void write(int b) throws IOException {
            write(new byte[] {(byte) b}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int count) throws IOException {
            sink.write(MemorySegment.ofArray(bytes).asSlice(from, count));
        }
    }
}
