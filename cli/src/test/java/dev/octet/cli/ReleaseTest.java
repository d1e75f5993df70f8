package dev.octet.cli;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import javax.xml.xpath.XPathExpressionException;
import javax.xml.xpath.XPathFactory;
import org.junit.jupiter.api.DisplayNameGeneration;
import org.junit.jupiter.api.DisplayNameGenerator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.w3c.dom.Document;
import org.xml.sax.SAXException;

/** What Maven Central asks of a release (central.sonatype.org/publish/requirements), and the container file, without building either. */
@DisplayNameGeneration(DisplayNameGenerator.ReplaceUnderscores.class)
class ReleaseTest {
    private static final Path ROOT = Path.of(System.getProperty("octet.testdata"))
            .toAbsolutePath()
            .normalize()
            .resolveSibling("");

    private static final List<String> ASKED_FOR = List.of(
            "name",
            "description",
            "url",
            "licenses/license/name",
            "licenses/license/url",
            "developers/developer/name",
            "scm/connection",
            "scm/developerConnection",
            "scm/url");

    private static Document pom(String folder) throws IOException {
        try {
            return DocumentBuilderFactory.newDefaultInstance()
                    .newDocumentBuilder()
                    .parse(ROOT.resolve(folder).resolve("pom.xml").toFile());
        } catch (ParserConfigurationException | SAXException e) {
            throw new IllegalStateException(e);
        }
    }

    private static String text(Document pom, String path) {
        try {
            return XPathFactory.newDefaultInstance()
                    .newXPath()
                    .evaluate("/project/" + path, pom)
                    .strip();
        } catch (XPathExpressionException e) {
            throw new IllegalStateException(e);
        }
    }

    private static List<String> modules() throws IOException {
        Document parent = pom("");
        int count = Integer.parseInt(count(parent));
        return IntStream.rangeClosed(1, count)
                .mapToObj(i -> text(parent, "modules/module[" + i + "]"))
                .toList();
    }

    private static String count(Document pom) {
        try {
            return XPathFactory.newDefaultInstance().newXPath().evaluate("count(/project/modules/module)", pom);
        } catch (XPathExpressionException e) {
            throw new IllegalStateException(e);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "bom"})
    void a_pom_without_a_parent_has_all_that_is_asked_for(String folder) throws IOException {
        Document pom = pom(folder);
        for (String path : ASKED_FOR) {
            assertFalse(text(pom, path).isEmpty(), path);
        }
    }

    @Test
    void the_two_poms_say_the_same() throws IOException {
        for (String path : ASKED_FOR.subList(2, ASKED_FOR.size())) {
            assertEquals(text(pom(""), path), text(pom("bom"), path), path);
        }
        assertEquals(text(pom(""), "version"), text(pom("bom"), "version"));
    }

    @Test
    void every_module_has_its_own_name_and_what_is_shipped_is_in_the_bill_of_materials() throws IOException {
        String bom = Files.readString(ROOT.resolve("bom/pom.xml"));
        Set<String> names = new TreeSet<>();
        List<String> modules = modules();
        for (String module : modules) {
            Document pom = pom(module);
            assertTrue(names.add(text(pom, "name")), module);
            assertFalse(text(pom, "description").isEmpty(), module);
            boolean shipped = text(pom, "properties/maven.deploy.skip").isEmpty();
            assertEquals(
                    shipped && !module.equals("bom"),
                    bom.contains("<artifactId>" + text(pom, "artifactId") + "</artifactId>") && !module.equals("bom"),
                    module);
        }
        assertTrue(modules.size() > 6, modules.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "bom"})
    void signing_is_in_the_release_profile_alone_and_after_package(String folder) throws IOException {
        Document pom = pom(folder);
        String sign = "profiles/profile[id='release']/build/plugins/plugin[artifactId='maven-gpg-plugin']";
        assertEquals("verify", text(pom, sign + "/executions/execution/phase"));
        assertEquals("sign", text(pom, sign + "/executions/execution/goals/goal"));
        assertEquals(
                1, Files.readString(ROOT.resolve(folder).resolve("pom.xml")).split("maven-gpg-plugin", -1).length - 1);
    }

    @Test
    void the_container_file_takes_the_archive_that_the_build_makes() throws IOException {
        String file = Files.readString(ROOT.resolve("Containerfile"));
        String release = text(pom(""), "properties/maven.compiler.release");
        assertTrue(file.contains("temurin-" + release), file);
        assertTrue(file.contains("cli/target/octet-[0-9]*-linux-x86_64.tar.gz"), file);
        String archives = Files.readString(ROOT.resolve("docs/archives.md"));
        assertTrue(archives.contains("`octet-VERSION-linux-x86_64.tar.gz`") && archives.contains("`Containerfile`"));
        String ignored = Files.readString(ROOT.resolve(".dockerignore"));
        assertEquals(List.of(".git", "**/target"), ignored.lines().collect(Collectors.toList()));
    }
}
