"""What cv2's functions do: those that compute each pixel from the image alone, whatever the number of threads."""

from __future__ import annotations

import re
from typing import Any

from codedag.backends.known_builtins import device
from codedag.backends.known_table import Effect, Places, Table

_PURE = (
    "GaussianBlur LUT Laplacian Rodrigues Scharr Sobel absdiff adaptiveThreshold add addWeighted applyColorMap "
    "approxPolyDP arcLength bilateralFilter bitwise_and bitwise_not bitwise_or bitwise_xor blendLinear blur "
    "borderInterpolate boundingRect boxFilter boxPoints calcHist cartToPolar compare "
    "connectedComponents connectedComponentsWithStats contourArea convertMaps convertScaleAbs convexHull "
    "copyMakeBorder "
    "copyTo countNonZero cvtColor cvtColorTwoPlane dct demosaicing determinant dilate distanceTransform divide "
    "equalizeHist erode exp extractChannel filter2D findContours findNonZero flip flipND "
    "getAffineTransform getDerivKernels getGaussianKernel getPerspectiveTransform getRectSubPix getRotationMatrix2D "
    "getStructuringElement hasNonZero hconcat idct imdecode imencode inRange integral integral2 integral3 "
    "invertAffineTransform "
    "isContourConvex linearPolar log logPolar magnitude matchTemplate max mean meanStdDev medianBlur merge min "
    "minAreaRect minEnclosingCircle minMaxLoc moments morphologyEx multiply norm normalize perspectiveTransform phase "
    "pointPolygonTest polarToCart pow preCornerDetect pyrDown pyrUp reduce remap repeat resize rotate scaleAdd "
    "sepFilter2D solve split spatialGradient sqrBoxFilter sqrt subtract sumElems threshold transform "
    "transpose trace "
    "undistort vconcat warpAffine warpPerspective warpPolar"
)
#: Sums and transforms that may be split among threads.
_SUMS = (
    "stackBlur "
    "dft idft gemm mulTransposed PSNR Canny cornerHarris cornerMinEigenVal calcBackProject "
    "fastNlMeansDenoising fastNlMeansDenoisingColored"
)
_DRAWING = (
    "rectangle circle line ellipse polylines fillPoly fillConvexPoly putText arrowedLine drawContours drawMarker "
    "accumulate accumulateSquare accumulateProduct accumulateWeighted insertChannel setIdentity patchNaNs floodFill "
    "mixChannels completeSymm"
)
_FIRST_LINE = re.compile(r"^\s*\w+\((?P<given>[^)]*)\)\s*->\s*(?P<back>[\w, ]+)", re.MULTILINE)


def learn(table: Table, cv2: Any) -> None:
    """Adds cv2; which arguments a function writes is what its own documentation says it gives back."""
    for names, sums in ((_PURE, False), (_SUMS, True), (_DRAWING, False)):
        for name in names.split():
            outs = written(getattr(cv2, name, None))
            if outs is not None:
                table.functions_of(cv2, name, outs=outs, by_threads=sums, declines=_ODD.get(name))
    table.functions_of(
        cv2, "imread", effect=Effect.READS, outs=_imread_outs(cv2), files=(0, "filename"), declines=_name
    )
    table.functions_of(cv2, "getTextSize", outs=())
    if hasattr(cv2, "CLAHE"):
        table.functions_of(cv2, "createCLAHE", outs=())
        table.hold(cv2.CLAHE)
        table.methods_of(cv2.CLAHE, "apply", outs=(1, "dst"), into_self=True)  # it keeps its tables from call to call


def _imread_outs(cv2: Any) -> Places:
    return written(cv2.imread) or ()


def written(function: Any) -> Places | None:
    """The arguments that a cv2 function writes: they are named both before and behind the arrow; None if not said."""
    lines = list(_FIRST_LINE.finditer(getattr(function, "__doc__", None) or ""))
    if not lines:
        return None
    outs: list[int | str] = []
    for line in lines:
        given = [name.strip() for name in line["given"].replace("[", "").replace("]", "").split(",")]
        back = {name.strip() for name in line["back"].split(",")}
        for position, name in enumerate(given):
            outs += [place for place in (position, name) if name in back and place not in outs]
    return tuple(outs)


def _name(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    return device(args[0] if args else keywords.get("filename"))


def _turn(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """With a code that it does not have, rotate leaves the result's memory as it was."""
    code = args[1] if len(args) > 1 else keywords.get("rotateCode")
    return "" if type(code) is int and code in (0, 1, 2) else "its code is not one of the three"


#: Functions that are not known with some of their arguments.
_ODD: dict[str, Any] = {"rotate": _turn}
