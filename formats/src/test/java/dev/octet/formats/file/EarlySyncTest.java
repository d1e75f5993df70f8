package dev.octet.formats.file;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Random;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class EarlySyncTest {
    @TempDir
    Path folder;

    @Test
    void a_file_that_is_synced_while_it_is_written_is_whole() throws IOException {
        byte[] bytes = new byte[1 << 20];
        new Random(1).nextBytes(bytes);
        Path target = folder.resolve("file");
        try (AtomicFile file = AtomicFile.create(target);
                EarlySync sync = new EarlySync(file, 1 << 12)) {
            int piece = 1 << 10;
            for (int at = 0; at < bytes.length; at += piece) {
                file.write(MemorySegment.ofArray(bytes).asSlice(at, piece));
                sync.wrote(piece);
            }
            sync.finish();
            file.commit();
        }
        assertArrayEquals(bytes, Files.readAllBytes(target));
    }

    @Test
    void a_sync_that_failed_is_reported() throws IOException {
        AtomicFile file = AtomicFile.create(folder.resolve("closed"));
        file.close();
        try (EarlySync sync = new EarlySync(file, 1)) {
            sync.wrote(1);
            IOException e = assertThrows(IOException.class, sync::finish);
            assertEquals(0, String.valueOf(e.getMessage()).indexOf("cannot sync"));
        }
    }
}
