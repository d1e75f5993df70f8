package dev.octet.pipeline.quickstart;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class QuickstartFilesTest {
    private static final byte[] CONTENT = "not a model".getBytes(StandardCharsets.UTF_8);

    @TempDir
    Path folder;

    private ZipFile jar() throws IOException {
        Path jar = folder.resolve("artifact.jar");
        try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(jar))) {
            out.putNextEntry(new ZipEntry("model.onnx"));
            out.write(CONTENT);
        }
        return new ZipFile(jar.toFile());
    }

    private List<String> filesLeft() throws IOException {
        try (Stream<Path> files = Files.list(folder)) {
            return files.map(f -> f.getFileName().toString())
                    .filter(n -> !n.equals("artifact.jar"))
                    .toList();
        }
    }

    @Test
    void an_entry_with_the_right_sum_is_copied() throws IOException, NoSuchAlgorithmException {
        String sum =
                HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(CONTENT));
        Path target = folder.resolve("copy.onnx");
        try (ZipFile zip = jar()) {
            QuickstartFiles.extract(zip, "model.onnx", sum, target);
        }
        assertArrayEquals(CONTENT, Files.readAllBytes(target));
    }

    @Test
    void an_entry_with_another_sum_is_refused_and_leaves_nothing() throws IOException {
        try (ZipFile zip = jar()) {
            DownloadException e = assertThrows(
                    DownloadException.class,
                    () -> QuickstartFiles.extract(zip, "model.onnx", "00".repeat(32), folder.resolve("copy.onnx")));
            assertTrue(String.valueOf(e.getMessage()).contains("SHA-256"), e.getMessage());
            assertTrue(e.where().endsWith("artifact.jar"), e.where());
            assertTrue(e.fix().startsWith("remove the artifact"), e.fix());
        }
        assertEquals(List.of(), filesLeft());
    }

    @Test
    void an_artifact_without_the_model_is_refused() throws IOException {
        try (ZipFile zip = jar()) {
            assertThrows(
                    DownloadException.class,
                    () -> QuickstartFiles.extract(zip, "other.onnx", "", folder.resolve("copy.onnx")));
        }
        assertEquals(List.of(), filesLeft());
    }
}
