"""Uploads in pieces: the tus resumable upload protocol, version 1.0 (https://tus.io/protocols/resumable-upload).

Core, creation, expiration and termination. Beyond it, GET answers with how far an upload is and what became of it, so
that a client whose last answer was lost learns the document that the file is now.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.utils.http import http_date
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from knowledge import resumable
from knowledge.access import access_base, visible_uploads
from knowledge.api import source_shapes as shapes
from knowledge.details import Details
from knowledge.models import Role, Upload
from portal.kernel.errors import Invalid, Unmet, WrongMedia
from portal.kernel.reading import asker

VERSION = "1.0.0"
BODY = "application/offset+octet-stream"
_BLOCK = 1 << 20
_HEADERS = [
    OpenApiParameter("Tus-Resumable", str, OpenApiParameter.HEADER, required=True, description="1.0.0"),
]


class WrongVersion(Unmet):
    """The client speaks another version of the protocol; `Tus-Version` of the answer names ours."""

    default_code = "tus_version"


class WrongBody(WrongMedia):
    """A piece came as something else than bytes at an offset."""

    default_code = "tus_body"


class _Tus(APIView):
    """What both addresses share: scopes, the protocol's headers, and the answer to OPTIONS."""

    read_scopes: tuple[str, ...] = ("kb:write", "kb:manage")
    write_scopes: tuple[str, ...] = ("kb:write", "kb:manage")

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        answer.headers["Tus-Resumable"] = VERSION
        if answer.status_code == WrongVersion.status:
            answer.headers["Tus-Version"] = VERSION
        return answer

    @extend_schema(exclude=True)
    def options(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """What the server can do; the same for everybody, so no id is looked at."""
        response = Response(status=status.HTTP_204_NO_CONTENT)
        response.headers["Tus-Version"] = VERSION
        response.headers["Tus-Extension"] = "creation,expiration,termination"
        response.headers["Tus-Max-Size"] = str(settings.ARCHWAY["MAX_UPLOAD_BYTES"])
        return response


def _require_version(request: Request) -> None:
    if request.headers.get("Tus-Resumable") != VERSION:
        raise WrongVersion("This server speaks version 1.0.0 of the tus protocol.")


def _number(request: Request, name: str) -> int:
    raw = request.headers.get(name, "")
    if not raw.isascii() or not raw.isdigit() or len(raw) > 15:
        raise Invalid("The header %(name)s must be a number of bytes.", code="header_invalid", name=name)
    return int(raw)


def _metadata(request: Request) -> dict[str, str]:
    """`Upload-Metadata`: pairs of a key and a Base64 value, separated by commas."""
    found = {}
    for pair in request.headers.get("Upload-Metadata", "").split(","):
        key, _, value = pair.strip().partition(" ")
        try:
            text = base64.b64decode(value.strip(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise Invalid(
                "The header %(name)s holds a value that is no Base64 of text.",
                code="header_invalid",
                name="Upload-Metadata",
            ) from error
        if key:
            found[key] = text.replace("\x00", "")
    return found


def _marked(response: Response, upload: Upload) -> Response:
    response.headers["Upload-Offset"] = str(upload.offset)
    if upload.state == Upload.State.OPEN:
        response.headers["Upload-Expires"] = http_date(upload.expires_at.timestamp())
    return response


class BaseUploadsView(_Tus):
    """The asker's own uploads into a base that have not ended, and the beginning of a new one."""

    @extend_schema(operation_id="uploads_list", responses=shapes.UploadSerializer(many=True))
    def get(self, request: Request, base: str) -> Response:
        """Uploads that can be gone on with: choose the same file again and send what is missing."""
        row = access_base(asker(request), base, Role.EDITOR)
        uploads = visible_uploads(asker(request)).filter(base=row).select_related("base", "document")
        return Response(shapes.UploadSerializer(resumable.still_open(uploads), many=True).data)

    @extend_schema(
        operation_id="uploads_create",
        request=None,
        responses={201: None},
        parameters=[
            *_HEADERS,
            OpenApiParameter("Upload-Length", int, OpenApiParameter.HEADER, required=True),
            OpenApiParameter(
                "Upload-Metadata",
                str,
                OpenApiParameter.HEADER,
                required=True,
                description="`filename` (or `path`), and optionally `folder`, `same_name`, `review`, `tags`, "
                "`metadata`, `fingerprint`",
            ),
        ],
    )
    def post(self, request: Request, base: str) -> Response:
        """Announce a file; the address to send its bytes to stands in `Location`."""
        principal = asker(request)
        row = access_base(principal, base, Role.EDITOR)
        _require_version(request)
        metadata = _metadata(request)
        path = metadata.get("path") or metadata.get("relativePath") or metadata.get("filename") or metadata.get("name")
        if not path:
            raise Invalid("Name the file: metadata `filename`.", code="file_missing")
        same_name = metadata.get("same_name", "revision")
        if same_name not in ("revision", "keep_both", "skip"):
            raise Invalid("same_name is one of revision, keep_both and skip.", code="header_invalid")
        upload = resumable.begin(
            principal,
            row,
            path=path,
            length=_number(request, "Upload-Length"),
            folder=metadata.get("folder", ""),
            same_name=same_name,  # type: ignore[arg-type]
            review=metadata.get("review", "") in ("1", "true", "on"),
            fingerprint=metadata.get("fingerprint", ""),
            details=Details.written(metadata.get("tags", ""), metadata.get("metadata", "")),
        )
        response = Response(status=status.HTTP_201_CREATED)
        response.headers["Location"] = f"/api/v1/uploads/{upload.uid}"
        return _marked(response, upload)


class ArchiveUploadsView(_Tus):
    """The asker's own archives on their way, and the beginning of a new one: an import of any size, in pieces."""

    read_scopes = ("kb:manage",)
    write_scopes = ("kb:manage",)

    @extend_schema(operation_id="import_uploads_list", responses=shapes.UploadSerializer(many=True))
    def get(self, request: Request) -> Response:
        """Archives whose upload can be gone on with."""
        uploads = visible_uploads(asker(request)).filter(base__isnull=True).select_related("archive")
        return Response(shapes.UploadSerializer(resumable.still_open(uploads), many=True).data)

    @extend_schema(
        operation_id="import_uploads_create",
        request=None,
        responses={201: None},
        parameters=[
            *_HEADERS,
            OpenApiParameter("Upload-Length", int, OpenApiParameter.HEADER, required=True),
            OpenApiParameter(
                "Upload-Metadata",
                str,
                OpenApiParameter.HEADER,
                required=True,
                description="`filename`, and optionally `name` of the new base, `embedding` (id), `fingerprint`",
            ),
        ],
    )
    def post(self, request: Request) -> Response:
        """Announce an archive; its import is queued with its last piece, and named by the upload as `archive`."""
        _require_version(request)
        metadata = _metadata(request)
        if not metadata.get("filename"):
            raise Invalid("Name the file: metadata `filename`.", code="file_missing")
        upload = resumable.begin_archive(
            asker(request),
            path=metadata["filename"],
            length=_number(request, "Upload-Length"),
            name=metadata.get("name", ""),
            embedding=metadata.get("embedding", ""),
            fingerprint=metadata.get("fingerprint", ""),
        )
        response = Response(status=status.HTTP_201_CREATED)
        response.headers["Location"] = f"/api/v1/uploads/{upload.uid}"
        return _marked(response, upload)


class UploadView(_Tus):
    """One upload of the asker's own."""

    def _find(self, request: Request, uid: str) -> Upload:
        return resumable.find(asker(request), uid)

    @extend_schema(operation_id="uploads_retrieve", responses=shapes.UploadSerializer)
    def get(self, request: Request, upload: str) -> Response:
        """How far it is, and what became of it."""
        return Response(shapes.UploadSerializer(self._find(request, upload)).data)

    @extend_schema(operation_id="uploads_offset", parameters=_HEADERS, responses={200: None})
    def head(self, request: Request, upload: str) -> Response:
        """Where to go on, in `Upload-Offset`."""
        row = self._find(request, upload)
        _require_version(request)
        response = Response(status=status.HTTP_200_OK)
        response.headers["Upload-Length"] = str(row.length)
        response.headers["Cache-Control"] = "no-store"
        return _marked(response, row)

    @extend_schema(
        operation_id="uploads_append",
        parameters=[*_HEADERS, OpenApiParameter("Upload-Offset", int, OpenApiParameter.HEADER, required=True)],
        request={BODY: OpenApiTypes.BINARY},
        responses={204: None},
    )
    def patch(self, request: Request, upload: str) -> Response:
        """Send the bytes from `Upload-Offset` on; with the last ones it becomes a document, or an import."""
        row = self._find(request, upload)
        _require_version(request)
        if request.content_type.partition(";")[0].strip() != BODY:
            raise WrongBody("Send the bytes as %(type)s.", type=BODY)
        row = resumable.append(asker(request), row, _number(request, "Upload-Offset"), _blocks(request))
        return _marked(Response(status=status.HTTP_204_NO_CONTENT), row)

    @extend_schema(operation_id="uploads_destroy", parameters=_HEADERS, responses={204: None})
    def delete(self, request: Request, upload: str) -> Response:
        """Forget it and its bytes."""
        row = self._find(request, upload)
        _require_version(request)
        resumable.discard(row)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _blocks(request: Request) -> Iterator[bytes]:
    while block := request._request.read(_BLOCK):
        yield block
