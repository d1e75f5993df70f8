package dev.octet.formats.onnx;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.octet.formats.onnx.proto.ModelProto;
import dev.octet.formats.onnx.proto.TensorProto;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Map;

/**
 * What "lossless" compares: a model with every tensor in raw_data, absent and default fields alike, and the default domain empty.
 * Written without any code of the reader and the writer.
 */
final class NormalForm {
    private NormalForm() {}

    static ModelProto of(ModelProto m) {
        return (ModelProto) normal(m);
    }

    private static Message normal(Message m) {
        Message.Builder b = m.toBuilder();
        for (Map.Entry<FieldDescriptor, Object> e : m.getAllFields().entrySet()) {
            FieldDescriptor f = e.getKey();
            if (f.isRepeated() && f.getJavaType() == FieldDescriptor.JavaType.MESSAGE) {
                b.clearField(f);
                ((List<?>) e.getValue()).forEach(c -> b.addRepeatedField(f, normal((Message) c)));
            } else if (f.getJavaType() == FieldDescriptor.JavaType.MESSAGE) {
                b.setField(f, normal((Message) e.getValue()));
            } else if (!f.isRepeated()
                    && f.getContainingOneof() == null
                    && e.getValue().equals(f.getDefaultValue())) {
                b.clearField(f);
            } else if (f.getName().equals("domain") && e.getValue().equals("ai.onnx")) {
                b.clearField(f);
            }
        }
        return b instanceof TensorProto.Builder t ? tensor(t) : b.build();
    }

    private static TensorProto tensor(TensorProto.Builder t) {
        int count = t.getFloatDataCount()
                + t.getDoubleDataCount()
                + t.getInt32DataCount()
                + t.getInt64DataCount()
                + t.getUint64DataCount();
        if (count == 0) {
            return t.build();
        }
        ByteBuffer raw = ByteBuffer.allocate(count * 8).order(ByteOrder.LITTLE_ENDIAN);
        t.getFloatDataList().forEach(raw::putFloat);
        t.getDoubleDataList().forEach(raw::putDouble);
        t.getInt64DataList().forEach(raw::putLong);
        t.getUint64DataList().forEach(v -> {
            if (t.getDataType() == 12) {
                raw.putInt(v.intValue());
            } else {
                raw.putLong(v);
            }
        });
        t.getInt32DataList().forEach(v -> {
            switch (t.getDataType()) {
                case 6 -> raw.putInt(v);
                case 4, 5, 10, 16 -> raw.putShort(v.shortValue());
                default -> raw.put(v.byteValue());
            }
        });
        return t.clearFloatData()
                .clearDoubleData()
                .clearInt32Data()
                .clearInt64Data()
                .clearUint64Data()
                .setRawData(ByteString.copyFrom(raw.flip()))
                .build();
    }
}
