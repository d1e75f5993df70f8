package dev.octet.formats.onnx;

import com.google.protobuf.ByteString;
import com.google.protobuf.MessageLite;
import dev.octet.formats.graph.Bytes;
import dev.octet.formats.graph.Initializer;
import dev.octet.formats.onnx.proto.StringStringEntryProto;
import dev.octet.formats.onnx.proto.TensorProto;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * The parts of a message that Octet's graph cannot represent, kept as a serialised partial message of the same type. The writer merges it
 * into the message it builds, so unknown fields survive, and so do irregularities (a metadata key twice, text that is not UTF-8).
 */
final class UnknownFields {
    private final List<StringStringEntryProto> entries = new ArrayList<>();
    private @Nullable ByteString brokenDoc;

    /** Metadata as a map; entries that a map cannot hold are kept. */
    Map<String, String> metadata(List<StringStringEntryProto> list) {
        if (list.isEmpty()) {
            return Map.of();
        }
        Map<String, String> map = new LinkedHashMap<>();
        for (StringStringEntryProto e : list) {
            boolean plain = e.getUnknownFields().getSerializedSize() == 0
                    && e.getKeyBytes().isValidUtf8()
                    && e.getValueBytes().isValidUtf8();
            if (!plain || map.putIfAbsent(e.getKey(), e.getValue()) != null) {
                entries.add(e);
            }
        }
        return map;
    }

    /** A documentation string; a string that is not UTF-8 is kept and reads as empty. */
    String doc(ByteString text) {
        if (text.isValidUtf8()) {
            return text.toStringUtf8();
        }
        brokenDoc = text;
        return "";
    }

    Optional<ByteString> brokenDoc() {
        return Optional.ofNullable(brokenDoc);
    }

    List<StringStringEntryProto> entries() {
        return entries;
    }

    /** A name. Unlike documentation it must be UTF-8, because two broken names could become equal. */
    static String text(ByteString text, Place place, String what) {
        if (!text.isValidUtf8()) {
            throw place.malformed("a " + what + " is not UTF-8", "the file is damaged: download or export it again");
        }
        return text.toStringUtf8();
    }

    static Bytes bytes(MessageLite.Builder rest) {
        MessageLite message = rest.buildPartial();
        return message.getSerializedSize() == 0 ? Bytes.EMPTY : Bytes.of(message.toByteArray());
    }

    /** The fields of a sparse tensor's part other than its elements, with the name if {@code named}; empty without such fields. */
    static Optional<TensorProto> partial(Initializer part, boolean named) {
        TensorProto.Builder b = TensorProto.newBuilder();
        if (named && !part.name().isEmpty()) {
            b.setName(part.name());
        }
        TensorEncoder.describe(b, part);
        return b.buildPartial().getSerializedSize() == 0 ? Optional.empty() : Optional.of(b.build());
    }
}
