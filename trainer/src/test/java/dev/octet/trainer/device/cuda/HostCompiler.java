package dev.octet.trainer.device.cuda;

import dev.octet.formats.error.UnavailableException;
import dev.octet.trainer.kernel.CudaSource;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/**
 * Compiles CUDA sources for the processor with the C++ compiler on the PATH. A library is kept in {@code target/host-kernels} under the hash
 * of all that went into it.
 */
final class HostCompiler {
    /** What only tests have: the machine of {@code octet.cuh} on a processor. */
    private static final String MACHINE = "octet_host.h";

    /** How kernels are made to run here. */
    enum Flavour {
        /** Nothing is contracted, as on a GPU. */
        PLAIN("-O1 -ffp-contract=off"),
        /** Products and sums become one operation wherever the compiler likes, as other compilers of kernels may. x86-64 with FMA. */
        CONTRACTED("-O2 -ffp-contract=fast -mfma -DOCTET_CONTRACTED=1"),
        /** Accesses to memory are watched for races. Ten times as slow. */
        WATCHED("-O1 -ffp-contract=off -fsanitize=thread -DOCTET_WATCHED=1");

        private final String options;

        Flavour(String options) {
            this.options = options;
        }

        /** That of this run: by the system property {@code octet.kernels}, {@code contracted} or {@code watched}. */
        static Flavour ofRun() {
            return switch (System.getProperty("octet.kernels", "")) {
                case "contracted" -> CONTRACTED;
                case "watched" -> WATCHED;
                default -> PLAIN;
            };
        }
    }

    private static final List<String> OPTIONS = List.of(
            "-x",
            "c++",
            "-std=c++17",
            "-fPIC",
            "-fno-strict-aliasing",
            "-fvisibility=hidden",
            "-fno-exceptions",
            "-fno-rtti",
            "-fsanitize=alignment,bounds,shift,signed-integer-overflow,integer-divide-by-zero",
            "-w");

    /** Looked for once: every emulated GPU asks, and the answer is a process. */
    private static final Optional<HostCompiler> FOUND = found().map(c -> new HostCompiler(c, versionOf(c)));

    private final String compiler;
    private final String version;
    private final Path folder;

    private HostCompiler(String compiler, String version) {
        this.compiler = compiler;
        this.version = version;
        this.folder = Path.of("target", "host-kernels").toAbsolutePath();
    }

    /** The compiler, if there is one; {@link #absence()} says why not. */
    static Optional<HostCompiler> find() {
        return absence().isPresent() ? Optional.empty() : FOUND;
    }

    /** Why kernels cannot run on this processor; empty when they can. */
    static Optional<String> absence() {
        String system = System.getProperty("os.name", "");
        String machine = System.getProperty("os.arch", "");
        if (!system.toLowerCase(Locale.ROOT).contains("linux")
                || !List.of("amd64", "x86_64", "aarch64").contains(machine)) {
            return Optional.of("kernels run on processors with Linux on x86-64 or AArch64 only; this is " + system
                    + " on " + machine);
        }
        return FOUND.isPresent()
                ? Optional.empty()
                : Optional.of("no C++ compiler on the PATH: g++, c++ or clang++ (Debian: apt-get install g++)");
    }

    /** What its {@code --version} says first. */
    String version() {
        return version;
    }

    /** The library of a source. */
    Path compile(CudaSource source, Flavour flavour) {
        String text = source.text();
        String machine = resource();
        List<String> options = new ArrayList<>(OPTIONS);
        options.addAll(List.of(flavour.options.split(" ", -1)));
        options.add("-DOCTET_HOST=1");
        source.defines().forEach((name, value) -> options.add("-D" + name + "=" + value));
        String stem = source.file().replace(".cu", "")
                + "-"
                + hash(compiler, version, options.toString(), CudaSource.prelude(), machine, text);
        Path library = folder.resolve(stem + ".so");
        if (Files.exists(library)) {
            return library;
        }
        try {
            Files.createDirectories(folder);
            Path work = Files.createTempDirectory(folder, stem);
            Files.writeString(work.resolve(CudaSource.PRELUDE), CudaSource.prelude());
            Files.writeString(work.resolve(MACHINE), machine);
            Path main = work.resolve(source.file());
            Files.writeString(main, text);
            Path object = work.resolve("kernels.o");
            Path made = work.resolve("kernels.so");
            List<String> compile = new ArrayList<>(List.of(compiler));
            compile.addAll(options);
            compile.addAll(List.of("-c", main.toString(), "-I" + work, "-o", object.toString()));
            run(compile, work, source);
            // linked by itself, as the sanitizer's own library must stay out
            run(List.of(compiler, "-shared", "-o", made.toString(), object.toString(), "-lm"), work, source);
            Files.move(made, library, StandardCopyOption.ATOMIC_MOVE);
            for (String file : List.of(CudaSource.PRELUDE, MACHINE, source.file(), "kernels.o", "log.txt")) {
                Files.deleteIfExists(work.resolve(file));
            }
            Files.delete(work);
            return library;
        } catch (IOException e) {
            throw new UncheckedIOException("compiling " + source, e);
        }
    }

    /** The library of a source that is no kernel, kept by its contents as well. */
    Path compile(String file, String text) {
        Path library = folder.resolve(file.replace(".cpp", "") + "-" + hash(compiler, version, text) + ".so");
        if (Files.exists(library)) {
            return library;
        }
        try {
            Files.createDirectories(folder);
            Path work = Files.createTempDirectory(folder, "library");
            Path main = Files.writeString(work.resolve(file), text);
            Path made = work.resolve("library.so");
            run(
                    List.of(compiler, "-std=c++17", "-O1", "-fPIC", "-shared", "-o", made.toString(), main.toString()),
                    work,
                    file);
            Files.move(made, library, StandardCopyOption.ATOMIC_MOVE);
            Files.delete(main);
            Files.deleteIfExists(work.resolve("log.txt"));
            Files.delete(work);
            return library;
        } catch (IOException e) {
            throw new UncheckedIOException("compiling " + file, e);
        }
    }

    private static void run(List<String> command, Path work, Object source) throws IOException {
        File log = work.resolve("log.txt").toFile();
        Process process = new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(log)
                .start();
        try {
            if (process.waitFor() != 0) {
                throw new UnavailableException(
                        source + " does not compile for this processor:\n" + Files.readString(log.toPath()),
                        String.join(" ", command),
                        "mend the lines named above; the file stays in " + work);
            }
        } catch (InterruptedException e) {
            process.destroy();
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while compiling " + source, e);
        }
    }

    private static Optional<String> found() {
        String path = System.getenv().getOrDefault("PATH", "");
        for (String name : List.of("g++", "c++", "clang++")) {
            for (String folder : path.split(File.pathSeparator, -1)) {
                if (!folder.isEmpty() && Files.isExecutable(Path.of(folder, name))) {
                    return Optional.of(Path.of(folder, name).toString());
                }
            }
        }
        return Optional.empty();
    }

    private static String versionOf(String compiler) {
        try {
            Process process = new ProcessBuilder(compiler, "--version")
                    .redirectErrorStream(true)
                    .start();
            try (InputStream out = process.getInputStream()) {
                return new String(out.readAllBytes(), StandardCharsets.UTF_8)
                        .lines()
                        .findFirst()
                        .orElse("unknown");
            }
        } catch (IOException e) {
            throw new UncheckedIOException(compiler + " --version", e);
        }
    }

    private static String resource() {
        try (InputStream in = HostCompiler.class.getResourceAsStream(MACHINE)) {
            if (in == null) {
                throw new IllegalStateException("no resource " + MACHINE);
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(MACHINE, e);
        }
    }

    private static String hash(String... parts) {
        try {
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            for (String part : parts) {
                byte[] bytes = part.getBytes(StandardCharsets.UTF_8);
                digest.update((byte) bytes.length);
                digest.update(bytes);
            }
            return HexFormat.of().formatHex(digest.digest(), 0, 10);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
