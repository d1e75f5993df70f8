package dev.octet.trainer.tensorboard;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The reader here shares no code with the writer: CRC-32C bit by bit, protobuf's wire format by hand. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class EventFileTest {
    @TempDir
    Path folder;

    private static final Clock CLOCK = Clock.fixed(Instant.ofEpochSecond(1_700_000_000), ZoneOffset.UTC);

    private Path only() throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.findFirst().orElseThrow();
        }
    }

    private static int crc(byte[] bytes) {
        int crc = -1;
        for (byte b : bytes) {
            crc ^= b & 0xFF;
            for (int bit = 0; bit < 8; bit++) {
                crc = (crc >>> 1) ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
            }
        }
        int plain = ~crc;
        return ((plain >>> 15) | (plain << 17)) + 0xA282EAD8;
    }

    private static List<byte[]> records(Path file) throws IOException {
        ByteBuffer in = ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
        List<byte[]> records = new ArrayList<>();
        while (in.hasRemaining()) {
            byte[] length = new byte[8];
            in.get(length);
            assertEquals(crc(length), in.getInt());
            byte[] data = new byte
                    [(int) ByteBuffer.wrap(length)
                            .order(ByteOrder.LITTLE_ENDIAN)
                            .getLong()];
            in.get(data);
            assertEquals(crc(data), in.getInt());
            records.add(data);
        }
        return records;
    }

    @Test
    void records_are_framed_and_name_their_version_first() throws IOException {
        try (EventFile file = EventFile.create(folder, 5, CLOCK)) {
            file.scalars(6, Map.of("a", 0.5));
        }
        assertTrue(only().getFileName().toString().startsWith("events.out.tfevents.1700000000."));
        List<byte[]> records = records(only());
        assertEquals(3, records.size());
        assertTrue(new String(records.getFirst(), StandardCharsets.ISO_8859_1).endsWith("brain.Event:2"));
        // wall time 1.7e9 (field 1, double), step 5 (field 2), session log (field 7) of status START (field 1, value 1)
        assertEquals(
                "09000000" + "40fc54d941" + "1005" + "3a020801", HexFormat.of().formatHex(records.get(1)));
        // step 6, summary (field 5) of one value (field 1): tag "a" (field 1), simple value 0.5 (field 2, float)
        assertEquals(
                "0900000040fc54d941" + "1006" + "2a0a" + "0a08" + "0a0161" + "150000003f",
                HexFormat.of().formatHex(records.get(2)));
    }

    @Test
    void several_values_of_a_step_lie_in_one_record() throws IOException {
        Map<String, Double> values = new LinkedHashMap<>();
        values.put("x", 1.0);
        values.put("y", Double.NaN);
        try (EventFile file = EventFile.create(folder, 1, CLOCK)) {
            file.scalars(300, values);
        }
        String hex = HexFormat.of().formatHex(records(only()).getLast());
        assertTrue(hex.contains("10ac02"), hex); // step 300 as a varint
        assertTrue(hex.contains("0a0178150000803f") && hex.contains("0a0179150000c07f"), hex);
    }

    /** The bytes are those of TensorBoard's own protocol buffers in Python (tensorboard 2.21). */
    @Test
    void texts_and_hyperparameters_are_what_the_plugins_of_tensorboard_read() throws IOException {
        try (EventFile file = EventFile.create(folder, 1, CLOCK)) {
            file.text(3, "config", "hi");
            file.hyperparameters(1, Map.of("lr", "0.5"));
            file.ended(9, true);
        }
        List<String> found = records(only()).stream()
                .skip(2)
                .map(r -> HexFormat.of().formatHex(r))
                .toList();
        assertEquals(
                List.of(
                        "0900000040fc54d94110032a240a220a06636f6e666967420c0807120412020801420268694a0a0a060a0474657874"
                                + "2002",
                        "0900000040fc54d94110012a5d0a5b0a1c5f68706172616d735f2f73657373696f6e5f73746172745f696e666f420e"
                            + "08011204120208012a04000000004a2b0a270a0768706172616d73121c1a1a0a0f0a026c7212091100000000"
                            + "0000e03f2900000040fc54d9412002",
                        "0900000040fc54d94110092a4c0a4a0a1a5f68706172616d735f2f73657373696f6e5f656e645f696e666f420e0801"
                            + "1204120208012a04000000004a1c0a180a0768706172616d73120d220b08011100000040fc54d9412002"),
                found);
    }

    @Test
    void files_of_one_second_do_not_overwrite_each_other() throws IOException {
        EventFile.create(folder, 1, CLOCK).close();
        EventFile.create(folder, 1, CLOCK).close();
        try (Stream<Path> files = Files.list(folder)) {
            List<Path> all = files.toList();
            assertEquals(2, all.size());
            assertFalse(Files.size(all.getFirst()) == 0);
        }
    }
}
